package receipt_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// golden is the handle of example under fixedKey(1). A change of it invalidates the handles of running consumers: give
// the new format another version.
const golden = "AwFWPjq109Z2TGHvuZMCvVsAAAAAAAAAAQECAwQFBgcIAAABi8_laAADY2hYAnNBBm1zZzEyM6aZxUOnxvoTsC8Hld8s_AI"

// macBytes is the length of the MAC at the end of a handle.
const macBytes = 16

func encode(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func decode(t require.TestingT, handle string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(handle)
	require.NoError(t, err)
	return raw
}

// seal returns the handle of any bytes, with a valid MAC.
func seal(key receipt.Key, signed []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write(signed)
	return encode(append(slices.Clone(signed), h.Sum(nil)[:macBytes]...))
}

func TestGoldenHandle(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1))
	require.Equal(t, golden, ring.Sign(example))
	got, err := ring.Verify(golden, example.Channel, example.Subscriber)
	require.NoError(t, err)
	require.Equal(t, example, got)
}

func TestWrite(t *testing.T) {
	t.Parallel()
	w := receipt.NewWrite()
	require.NotEqual(t, w, receipt.NewWrite())
	require.Len(t, w.String(), receipt.WriteTextBytes)
	parsed, err := receipt.ParseWrite(w.String())
	require.NoError(t, err)
	require.Equal(t, w, parsed)
	require.Empty(t, receipt.Write{}.String())
	for _, text := range []string{"", "AQIDBAUGBw", "AQIDBAUGBwgA", "AQIDBAUGBw?", "AQIDBAUGBwh"} {
		_, err := receipt.ParseWrite(text)
		require.ErrorIs(t, err, receipt.ErrMalformed, text)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1))
	rapid.Check(t, func(t *rapid.T) {
		want := receipts().Draw(t, "receipt")
		handle := ring.Sign(want)
		require.LessOrEqual(t, len(handle), receipt.MaxHandleBytes)
		require.Regexp(t, `^[0-9A-Za-z_-]+$`, handle)

		got, err := ring.Verify(handle, want.Channel, want.Subscriber)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, handle, ring.Sign(got))
	})
}

func TestLongestHandle(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1))
	name := strings.Repeat("n", receipt.MaxNameBytes)
	channel := strings.Repeat("c", receipt.MaxChannelBytes)
	handle := ring.Sign(receipt.Receipt{Channel: channel, Subscriber: name, MessageID: name})
	require.Len(t, handle, receipt.MaxHandleBytes)
	_, err := ring.Verify(handle, channel, name)
	require.NoError(t, err)
}

// TestVersions: only a handle that needs it has version 4, so that a server of an earlier version knows all others.
func TestVersions(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1))
	for size, version := range map[int]byte{1: 3, 255: 3, 256: 4, 257: 4, 511: 4, 512: 4} {
		r := receipt.Receipt{Channel: strings.Repeat("c", size), Subscriber: "s", MessageID: "m"}
		handle := ring.Sign(r)
		require.Equal(t, version, decode(t, handle)[0], size)
		got, err := ring.Verify(handle, r.Channel, r.Subscriber)
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
}

func TestSignRefusesWhatNoHandleCanCarry(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1))
	long := strings.Repeat("n", receipt.MaxNameBytes+1)
	for _, r := range []receipt.Receipt{
		{Channel: strings.Repeat("c", receipt.MaxChannelBytes+1)}, {Subscriber: long}, {MessageID: long}, {Clock: clock.Max + 1}, {Clock: clock.Min - 1},
	} {
		require.Panics(t, func() { ring.Sign(r) })
	}
	require.Equal(t, golden, ring.Sign(example))
}

// refusal is a handle that Verify refuses for example's channel and subscriber.
type refusal struct {
	handle string
	err    error
	text   string // part of the error's text
}

func (r refusal) check(t *testing.T, ring *receipt.Keyring) {
	t.Helper()
	got, err := ring.Verify(r.handle, example.Channel, example.Subscriber)
	require.Zero(t, got)
	require.ErrorContains(t, err, r.text)
	for _, sentinel := range []error{
		receipt.ErrMalformed, receipt.ErrForged, receipt.ErrWrongChannel, receipt.ErrWrongSubscriber,
	} {
		require.Equal(t, errors.Is(r.err, sentinel), errors.Is(err, sentinel), "%v is %v", err, sentinel)
	}
}

func TestVerifyRefusesText(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1))
	// The last character has bits to spare: another one decodes to the same bytes.
	leftOver := []byte(golden)
	leftOver[len(leftOver)-1]++
	require.Equal(t, decode(t, golden), decode(t, string(leftOver)))

	for name, text := range map[string]refusal{
		"empty":                 {"", receipt.ErrMalformed, "empty"},
		"not base64":            {"what?" + golden, receipt.ErrMalformed, "illegal base64"},
		"standard alphabet":     {"+/" + golden, receipt.ErrMalformed, "illegal base64"},
		"padding":               {golden + "=", receipt.ErrMalformed, "illegal base64"},
		"space in front":        {" " + golden, receipt.ErrMalformed, "illegal base64"},
		"line break at the end": {golden + "\n", receipt.ErrMalformed, "line break"},
		"line break inside":     {golden[:20] + "\r\n" + golden[20:], receipt.ErrMalformed, "line break"},
		"bits left over":        {string(leftOver), receipt.ErrMalformed, "illegal base64"},
		"too long": {strings.Repeat("A", receipt.MaxHandleBytes+1), receipt.ErrMalformed,
			"longer than 1444 bytes"},
		"megabytes":     {strings.Repeat("\n", 1<<22), receipt.ErrMalformed, "longer than 1444 bytes"},
		"version alone": {encode([]byte{3}), receipt.ErrMalformed, "too short"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text.check(t, ring)
		})
	}
}

// TestVerifyRefusesContent changes golden and then signs it: with the right key,
// so that the MAC doesn't reveal the change, unless the case changes it.
func TestVerifyRefusesContent(t *testing.T) {
	t.Parallel()
	key := fixedKey(1)
	ring := newKeyring(t, key)
	raw := decode(t, golden)
	signed := raw[: len(raw)-macBytes : len(raw)-macBytes]
	set := func(at int, bytes ...byte) []byte {
		return append(append(slices.Clone(signed[:at]), bytes...), signed[at+len(bytes):]...)
	}
	setClock := func(n int64) []byte { return set(17, binary.BigEndian.AppendUint64(nil, uint64(n))...) }

	for name, content := range map[string]refusal{
		"version 0":             {seal(key, set(0, 0)), receipt.ErrMalformed, "unknown version 0"},
		"version 2":             {seal(key, set(0, 2)), receipt.ErrMalformed, "unknown version 2"},
		"version 5":             {seal(key, set(0, 5)), receipt.ErrMalformed, "unknown version 5"},
		"version 4, cut":        {seal(key, set(0, 4)), receipt.ErrMalformed, "channel"},
		"version 4, short name": {seal(key, append(set(0, 4)[:41], 0, 3, 'c', 'h', 'X', 1, 's', 0)), receipt.ErrMalformed, "channel"},
		"cut":                   {seal(key, signed[:40]), receipt.ErrMalformed, "too short"},
		"names missing":         {seal(key, signed[:41]), receipt.ErrMalformed, "channel"},
		"channel too long":      {seal(key, set(41, 14)), receipt.ErrMalformed, "channel"},
		"channel takes all":     {seal(key, set(41, 13)), receipt.ErrMalformed, "subscriber"},
		"subscriber too long":   {seal(key, set(45, 10)), receipt.ErrMalformed, "subscriber"},
		"subscriber takes all":  {seal(key, set(45, 9)), receipt.ErrMalformed, "message ID"},
		"message ID too long":   {seal(key, set(48, 7)), receipt.ErrMalformed, "message ID"},
		"message ID too short":  {seal(key, set(48, 5)), receipt.ErrMalformed, "after the names"},
		"bytes after the names": {seal(key, append(signed, 0)), receipt.ErrMalformed, "after the names"},
		"clock above Max": {seal(key, setClock(1<<53)), receipt.ErrMalformed,
			"9007199254740992 is no clock"},
		"clock below Min": {seal(key, setClock(-1<<53)), receipt.ErrMalformed,
			"-9007199254740992 is no clock"},
		"clock far out":               {seal(key, setClock(-1<<63)), receipt.ErrMalformed, "no clock"},
		"MAC of zeros":                {encode(append(signed, make([]byte, macBytes)...)), receipt.ErrForged, ""},
		"another key":                 {seal(fixedKey(2), signed), receipt.ErrForged, ""},
		"another key and a bad clock": {seal(fixedKey(2), setClock(1<<53)), receipt.ErrForged, ""},
		"another key and channel":     {seal(fixedKey(2), set(44, 'Y')), receipt.ErrForged, ""},
		"another channel":             {seal(key, set(44, 'Y')), receipt.ErrWrongChannel, ""},
		"another subscriber":          {seal(key, set(47, 'B')), receipt.ErrWrongSubscriber, ""},
		"both are others":             {seal(key, set(44, 'Y', 2, 's', 'B')), receipt.ErrWrongChannel, ""},
		"the same letters cut elsewhere": {ring.Sign(receipt.Receipt{Channel: "chXs", Subscriber: "A"}),
			receipt.ErrWrongChannel, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content.check(t, ring)
		})
	}
}

// refused requires that a handle counts as damaged, not as another subscriber's.
func refused(t require.TestingT, ring *receipt.Keyring, handle string, r receipt.Receipt) {
	got, err := ring.Verify(handle, r.Channel, r.Subscriber)
	require.Zero(t, got)
	if !isEither(err, receipt.ErrMalformed, receipt.ErrForged) {
		require.Failf(t, "damaged handle", "%s: %v", handle, err)
	}
}

func TestDamagedHandleIsRefused(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1))
	t.Run("every bit of the golden handle", func(t *testing.T) {
		t.Parallel()
		raw := decode(t, golden)
		for i := range len(raw) * 8 {
			flipped := slices.Clone(raw)
			flipped[i/8] ^= 1 << (i % 8)
			refused(t, ring, encode(flipped), example)
		}
		for i := range len(golden) * 8 {
			flipped := []byte(golden)
			flipped[i/8] ^= 1 << (i % 8)
			refused(t, ring, string(flipped), example)
		}
	})
	t.Run("every cut of the golden handle", func(t *testing.T) {
		t.Parallel()
		for i := range len(golden) {
			refused(t, ring, golden[:i], example)
			refused(t, ring, golden[i+1:], example)
		}
	})
	check := func(name string, damage func(t *rapid.T, raw []byte) []byte) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				r := receipts().Draw(t, "receipt")
				refused(t, ring, encode(damage(t, decode(t, ring.Sign(r)))), r)
			})
		})
	}
	check("one bit of any handle", func(t *rapid.T, raw []byte) []byte {
		i := rapid.IntRange(0, len(raw)*8-1).Draw(t, "bit")
		raw[i/8] ^= 1 << (i % 8)
		return raw
	})
	check("truncated", func(t *rapid.T, raw []byte) []byte {
		return raw[:rapid.IntRange(0, len(raw)-1).Draw(t, "length")]
	})
	check("extended", func(t *rapid.T, raw []byte) []byte {
		return append(raw, rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "more")...)
	})
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	oldKey, newKey := fixedKey(1), fixedKey(2)
	handle := newKeyring(t, oldKey).Sign(example)

	both := newKeyring(t, newKey, oldKey)
	got, err := both.Verify(handle, example.Channel, example.Subscriber)
	require.NoError(t, err, "the old key verifies")
	require.Equal(t, example, got)
	require.Equal(t, newKeyring(t, newKey).Sign(example), both.Sign(example), "the first key signs")

	_, err = newKeyring(t, newKey).Verify(handle, example.Channel, example.Subscriber)
	require.ErrorIs(t, err, receipt.ErrForged, "a removed key doesn't verify")
}

func TestKeyringCopiesItsKeys(t *testing.T) {
	t.Parallel()
	key := fixedKey(1)
	ring := newKeyring(t, key)
	clear(key)
	require.Equal(t, golden, ring.Sign(example))
}

func TestReplace(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(2))
	signed := ring.Sign(example)
	require.NoError(t, ring.Replace(fixedKey(1), fixedKey(2)))
	require.Equal(t, golden, ring.Sign(example))
	_, err := ring.Verify(signed, example.Channel, example.Subscriber)
	require.NoError(t, err)

	require.ErrorIs(t, ring.Replace(), receipt.ErrNoKey)
	require.ErrorIs(t, ring.Replace(fixedKey(3), fixedKey(3)[1:]), receipt.ErrShortKey)
	require.Equal(t, golden, ring.Sign(example), "after an error the keys stay")

	require.NoError(t, ring.Replace(fixedKey(1)))
	_, err = ring.Verify(signed, example.Channel, example.Subscriber)
	require.ErrorIs(t, err, receipt.ErrForged)
}

// TestReplaceWhileInUse replaces keys while others sign and verify. Each call has one set of keys or the other.
func TestReplaceWhileInUse(t *testing.T) {
	t.Parallel()
	ring := newKeyring(t, fixedKey(1), fixedKey(2))
	other := newKeyring(t, fixedKey(2)).Sign(example)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				handle := ring.Sign(example)
				if handle != golden && handle != other {
					t.Errorf("signed with no key: %s", handle)
				}
				if _, err := ring.Verify(handle, example.Channel, example.Subscriber); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for n := range 200 {
		keys := []receipt.Key{fixedKey(1), fixedKey(2)}
		if n%2 == 0 {
			slices.Reverse(keys)
		}
		require.NoError(t, ring.Replace(keys...))
	}
	wg.Wait()
}
