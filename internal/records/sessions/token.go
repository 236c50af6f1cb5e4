package sessions

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// Prefix is the beginning of every token.
const Prefix = "tms_"

const tokens records.TokenPrefix = Prefix

// Ref identifies a session in the storage.
type Ref struct {
	User string
	ID   string
}

// nextToken returns the token that follows another one, for a caller that may repeat the call with the same key. The
// old token alone doesn't suffice to compute it.
func nextToken(user, old, key string) string {
	if key == "" {
		return tokens.New(user)
	}
	mac := hmac.New(sha256.New, []byte(old))
	mac.Write([]byte("tidemark session rotation " + key))
	return tokens.With(user, mac.Sum(nil))
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
