package receipt

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// MinKeyBytes is the length of the shortest key that is accepted.
const MinKeyBytes = 32

// Errors of NewKeyring and ParseKey. They come wrapped: use errors.Is.
var (
	// ErrNoKey says that a keyring was to be made of no keys.
	ErrNoKey = errors.New("no receipt key")
	// ErrShortKey says that a key has fewer than MinKeyBytes bytes.
	ErrShortKey = errors.New("receipt key is too short")
	// ErrKeySyntax says that the text of a key isn't base64.
	ErrKeySyntax = errors.New("receipt key is not base64")
)

// Key is a secret of at least MinKeyBytes bytes that signs and verifies handles.
// Formatting or logging it doesn't show it; Encode does.
type Key []byte

// GenerateKey returns a new random key of MinKeyBytes bytes.
func GenerateKey() (Key, error) {
	key := make(Key, MinKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("generate receipt key: %w", err)
	}
	return key, nil
}

// ParseKey reads a key from base64, in the standard or the URL alphabet, with or
// without padding. Space around the text and line breaks in it are ignored.
// The error is ErrKeySyntax or ErrShortKey and never repeats the text.
func ParseKey(text string) (Key, error) {
	text = strings.TrimSpace(text)
	encoding := base64.RawURLEncoding
	if strings.ContainsAny(text, "+/") {
		encoding = base64.RawStdEncoding
	}
	if strings.HasSuffix(text, "=") {
		encoding = encoding.WithPadding(base64.StdPadding)
	}
	key, err := encoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKeySyntax, err)
	}
	if err := Key(key).check(); err != nil {
		return nil, err
	}
	return key, nil
}

// Encode returns the key as base64url without padding, for ParseKey.
func (k Key) Encode() string { return base64.RawURLEncoding.EncodeToString(k) }

// Format writes a placeholder, whatever the verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue returns a placeholder.
func (k Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// redacted stands for a key in text that people read.
const redacted = "[receipt key]"

// check returns ErrShortKey for a key that is too short.
func (k Key) check() error {
	if len(k) < MinKeyBytes {
		return fmt.Errorf("%w: %d bytes of at least %d", ErrShortKey, len(k), MinKeyBytes)
	}
	return nil
}
