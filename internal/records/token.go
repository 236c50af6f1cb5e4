package records

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
)

// SecretBytes is how many random bytes a token has.
const SecretBytes = 32

var encoding = base64.RawURLEncoding.Strict()

// TokenPrefix is the common beginning of all tokens of one sort. It is followed by a secret of 43 characters and the
// user, both in base64url, so that a key can be derived from the token alone.
type TokenPrefix string

// New returns a token of a user with a new secret.
func (p TokenPrefix) New(user string) string { return p.With(user, rawSecret()) }

// With returns the token of a user with a secret of SecretBytes.
func (p TokenPrefix) With(user string, secret []byte) string {
	return string(p) + encoding.EncodeToString(secret) + encoding.EncodeToString([]byte(user))
}

// User returns the user of a token, and reports whether the token is well-formed. A user and a secret have only one
// such token.
func (p TokenPrefix) User(token string) (user string, ok bool) {
	rest, ok := strings.CutPrefix(token, string(p))
	size := encoding.EncodedLen(SecretBytes)
	if !ok || len(rest) <= size || len(rest) > size+encoding.EncodedLen(MaxIDBytes) {
		return "", false
	}
	if strings.ContainsAny(rest, "\r\n") { // the decoder ignores them
		return "", false
	}
	if _, err := encoding.DecodeString(rest[:size]); err != nil {
		return "", false
	}
	text, err := encoding.DecodeString(rest[size:])
	if err != nil || CheckID("user", string(text)) != nil {
		return "", false
	}
	return string(text), true
}

// NewSecret returns a random secret in base64url.
func NewSecret() string { return encoding.EncodeToString(rawSecret()) }

func rawSecret() []byte {
	secret := make([]byte, SecretBytes)
	_, _ = rand.Read(secret) // never fails
	return secret
}
