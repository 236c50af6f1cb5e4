package receipt_test

import (
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// example is the receipt of the golden handle.
var example = receipt.Receipt{
	Channel:     "chX",
	Subscriber:  "sA",
	Epoch:       ulid.MustParse("01ARZ3NDEKTSV4RRFFQ69G5FAV"),
	Clock:       1,
	Fingerprint: receipt.FingerprintOf("msg123"),
}

// fixedKey returns a key of as many bytes as the shortest may have, all b.
func fixedKey(b byte) receipt.Key {
	key := make(receipt.Key, receipt.MinKeyBytes)
	for i := range key {
		key[i] = b
	}
	return key
}

func newKeyring(t require.TestingT, keys ...receipt.Key) *receipt.Keyring {
	ring, err := receipt.NewKeyring(keys...)
	require.NoError(t, err)
	return ring
}

// receipts draws receipts with names of all lengths that fit and clocks of
// which many are at the edges.
func receipts() *rapid.Generator[receipt.Receipt] {
	names := rapid.OneOf(
		rapid.StringMatching(`[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, receipt.MaxNameBytes), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), receipt.MaxNameBytes, receipt.MaxNameBytes), func(b []byte) string { return string(b) }),
	)
	clocks := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 1, -1, 1e14, -1e14, int64(clock.Max) - 1, int64(clock.Max), int64(clock.Min)}),
		rapid.Int64Range(int64(clock.Min), int64(clock.Max)),
	)
	return rapid.Custom(func(t *rapid.T) receipt.Receipt {
		return receipt.Receipt{
			Channel:     names.Draw(t, "channel"),
			Subscriber:  names.Draw(t, "subscriber"),
			Epoch:       ulid.ULID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "epoch")),
			Clock:       clock.Clock(clocks.Draw(t, "clock")),
			Fingerprint: receipt.Fingerprint(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "fingerprint")),
		}
	})
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	require.Empty(t, receipt.Fingerprint{}.String())
	// The SHA-1 of "abc" is an example of its standard, FIPS 180-2.
	require.Equal(t, "a9993e364706816a", receipt.FingerprintOf("abc").String())
	require.Equal(t, "da39a3ee5e6b4b0d", receipt.FingerprintOf("").String())
	require.NotEqual(t, receipt.FingerprintOf("msg123"), receipt.FingerprintOf("msg124"))
	require.Equal(t, "0000000000000001", receipt.Fingerprint{7: 1}.String())
}
