package sessions

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/tidemark-dev/tidemark/records"
)

// Prefix is what every token begins with.
const Prefix = "tms_"

const (
	secretBytes = 32
	secretText  = 43 // characters of base64url
)

var encoding = base64.RawURLEncoding.Strict()

// Ref names a session in the storage.
type Ref struct {
	User string
	ID   string
}

func token(user string, secret []byte) string {
	return Prefix + encoding.EncodeToString(secret) + encoding.EncodeToString([]byte(user))
}

func newToken(user string) string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return token(user, secret)
}

// nextToken returns the token that follows another one, for a caller that may ask again with the same key. Who has only the old
// token can't guess it.
func nextToken(user, old, key string) string {
	if key == "" {
		return newToken(user)
	}
	mac := hmac.New(sha256.New, []byte(old))
	mac.Write([]byte("tidemark session rotation " + key))
	return token(user, mac.Sum(nil))
}

// Parse returns the session that a token names, if it has the form of one. Whether there is such a session only the storage
// knows.
func Parse(token string) (Ref, bool) {
	rest, ok := strings.CutPrefix(token, Prefix)
	if !ok || len(rest) <= secretText || len(rest) > secretText+encoding.EncodedLen(records.MaxIDBytes) {
		return Ref{}, false
	}
	if strings.ContainsAny(rest, "\r\n") { // which the decoder passes over
		return Ref{}, false
	}
	if _, err := encoding.DecodeString(rest[:secretText]); err != nil {
		return Ref{}, false
	}
	user, err := encoding.DecodeString(rest[secretText:])
	if err != nil || records.CheckID("user", string(user)) != nil {
		return Ref{}, false
	}
	return refOf(string(user), token), true
}

func refOf(user, token string) Ref {
	sum := sha256.Sum256([]byte(token))
	return Ref{User: user, ID: hex.EncodeToString(sum[:])}
}

// IsID reports whether text has the form of a session's ID.
func IsID(text string) bool {
	if len(text) != hex.EncodedLen(sha256.Size) {
		return false
	}
	return strings.Trim(text, "0123456789abcdef") == ""
}
