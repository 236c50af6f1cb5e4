package receipt

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// Write identifies one write of a message. A repeated publish of the same message is another write, also if the service
// repeats it by itself: after a fail-over that lost writes, a message may be at the same clock as before, but what is
// before it may differ. The zero value is an unknown write.
type Write [writeBytes]byte

const writeBytes = 8

// WriteTextBytes is the length of the text of a Write.
const WriteTextBytes = 11

// NewWrite returns a random Write.
func NewWrite() (w Write) {
	_, _ = rand.Read(w[:]) // never fails
	return w
}

// ParseWrite returns the Write of a text, as String returns it. The error is ErrMalformed.
func ParseWrite(text string) (w Write, err error) {
	if len(text) != WriteTextBytes {
		return Write{}, fmt.Errorf("%w: a write has %d characters", ErrMalformed, WriteTextBytes)
	}
	if _, err := handleEncoding.Decode(w[:], []byte(text)); err != nil {
		return Write{}, fmt.Errorf("%w: write: %w", ErrMalformed, err)
	}
	return w, nil
}

// IsZero reports whether the write is unknown.
func (w Write) IsZero() bool { return w == Write{} }

// String returns the write in base64url, or nothing if it is unknown.
func (w Write) String() string {
	if w.IsZero() {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(w[:])
}
