package receipt_test

import (
	"time"

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
	MessageID:   "msg123",
	Write:       receipt.Write{1, 2, 3, 4, 5, 6, 7, 8},
	PublishedAt: time.UnixMilli(1_700_000_000_000),
}

// fixedKey returns a key of the minimum length, with all bytes b.
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

// receipts draws receipts with names of all valid lengths, and often with
// clocks at the edges.
func receipts() *rapid.Generator[receipt.Receipt] {
	names := rapid.OneOf(
		rapid.StringMatching(`[0-9A-Za-z][0-9A-Za-z_.:-]{0,127}`),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, receipt.MaxNameBytes), func(b []byte) string { return string(b) }),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), receipt.MaxNameBytes, receipt.MaxNameBytes),
			func(b []byte) string { return string(b) }),
	)
	long := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, receipt.MaxChannelBytes), func(b []byte) string { return string(b) })
	clocks := rapid.OneOf(
		rapid.SampledFrom([]int64{0, 1, -1, 1e14, -1e14, int64(clock.Max) - 1, int64(clock.Max), int64(clock.Min)}),
		rapid.Int64Range(int64(clock.Min), int64(clock.Max)),
	)
	return rapid.Custom(func(t *rapid.T) receipt.Receipt {
		r := receipt.Receipt{
			Channel:    rapid.OneOf(names, long).Draw(t, "channel"),
			Subscriber: names.Draw(t, "subscriber"),
			Epoch:      ulid.ULID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "epoch")),
			Clock:      clock.Clock(clocks.Draw(t, "clock")),
			MessageID:  names.Draw(t, "message ID"),
			Write:      receipt.Write(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "write")),
		}
		if ms := rapid.Int64Range(0, 1<<53).Draw(t, "published at"); ms != 0 {
			r.PublishedAt = time.UnixMilli(ms)
		}
		return r
	})
}
