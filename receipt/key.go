package receipt

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// MinKeyBytes is the length of the shortest valid key.
const MinKeyBytes = 32

// Errors of NewKeyring and ParseKey. They come wrapped: use errors.Is.
var (
	// ErrNoKey reports a keyring without keys.
	ErrNoKey = errors.New("no receipt key")
	// ErrShortKey reports a key of fewer than MinKeyBytes bytes.
	ErrShortKey = errors.New("receipt key is too short")
	// ErrKeySyntax reports a key that isn't base64.
	ErrKeySyntax = errors.New("receipt key is not base64")
)

// Key is a secret of at least MinKeyBytes bytes. Formatting or logging it doesn't reveal it; Encode does.
type Key []byte

// GenerateKey returns a new random key of MinKeyBytes bytes.
func GenerateKey() (Key, error) {
	key := make(Key, MinKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("generate receipt key: %w", err)
	}
	return key, nil
}

// ParseKey decodes a key from base64, in the standard or the URL alphabet, with or without padding. Leading and
// trailing space and line breaks are ignored. The error is ErrKeySyntax or ErrShortKey, and doesn't contain the text.
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

// redacted replaces a key in text.
const redacted = "[receipt key]"

// check returns ErrShortKey for a key that is too short.
func (k Key) check() error {
	if len(k) < MinKeyBytes {
		return fmt.Errorf("%w: %d bytes of at least %d", ErrShortKey, len(k), MinKeyBytes)
	}
	return nil
}
