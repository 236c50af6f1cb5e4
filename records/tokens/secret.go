package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/tidemark-dev/tidemark/records"
)

// secretBytes is how many random bytes a token or a state has.
const secretBytes = 32

// prefix begins the tokens of a kind: <prefix><43 characters><user>, the last two in base64url, so that the key is known from
// the token alone.
type prefix string

const verificationPrefix prefix = "tmv_"

// newToken makes a token of a user.
func (p prefix) newToken(user string) string {
	return string(p) + random() + base64.RawURLEncoding.EncodeToString([]byte(user))
}

// userOf returns whose token it is, if it has the form of one.
func (p prefix) userOf(token string) (user string, ok bool) {
	rest, ok := strings.CutPrefix(token, string(p))
	secret := base64.RawURLEncoding.EncodedLen(secretBytes)
	if !ok || len(rest) <= secret || len(rest) > secret+base64.RawURLEncoding.EncodedLen(records.MaxIDBytes) {
		return "", false
	}
	text, err := base64.RawURLEncoding.DecodeString(rest[secret:])
	return string(text), err == nil && base64.RawURLEncoding.EncodeToString(text) == rest[secret:] // one form only
}

// random returns a random secret as text. crypto/rand never fails.
func random() string {
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

// hashOf returns what the store knows a secret by.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
