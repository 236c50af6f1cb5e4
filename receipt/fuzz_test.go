package receipt_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/receipt"
)

func isEither(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// namesIn returns the names in a handle, if it is long enough to contain any.
func namesIn(handle string) (channel, subscriber string) {
	raw, err := base64.RawURLEncoding.DecodeString(handle)
	const start = 41
	if err != nil || len(raw) <= start {
		return "", ""
	}
	rest := raw[start:]
	size := int(rest[0])
	if raw[0] == 4 && len(rest) > 1 {
		rest = rest[1:]
		size = size<<8 + int(rest[0])
	}
	channel = string(rest[1:min(1+size, len(rest))])
	if rest = rest[1+len(channel):]; len(rest) == 0 {
		return channel, ""
	}
	return channel, string(rest[1:min(1+int(rest[0]), len(rest))])
}

// FuzzVerify verifies any text as a handle, and its bytes with a valid MAC: Verify never panics, fails only with its
// own errors, and signing a verified receipt again returns the same handle.
func FuzzVerify(f *testing.F) {
	key := fixedKey(1)
	ring := newKeyring(f, key)
	longest := strings.Repeat("n", receipt.MaxNameBytes)
	for _, handle := range []string{
		"", "AQ", golden, golden + "\n", golden + "A", golden[:40], "Ag" + golden[2:],
		ring.Sign(receipt.Receipt{}),
		ring.Sign(receipt.Receipt{Channel: longest, Subscriber: longest}),
		ring.Sign(receipt.Receipt{Channel: longest + longest, Subscriber: longest}),
	} {
		f.Add(handle)
		if raw, err := base64.RawURLEncoding.DecodeString(handle); err == nil && len(raw) > macBytes {
			f.Add(encode(raw[:len(raw)-macBytes]))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		handles := []string{text}
		if raw, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			handles = append(handles, seal(key, raw))
		}
		for _, handle := range handles {
			channel, subscriber := namesIn(handle)
			r, err := ring.Verify(handle, channel, subscriber)
			if err == nil {
				require.Equal(t, handle, ring.Sign(r))
				continue
			}
			require.Zero(t, r)
			require.True(t, isEither(err, receipt.ErrMalformed, receipt.ErrForged), "%q: %v", handle, err)
		}
	})
}
