package names

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Prefixes of the names that stand for subjects.
const (
	escaped = "xs--"
	hashed  = "xh--"
)

// maxEscaped is the longest name with an escaped subject, so that there is room for a prefix or a device.
const maxEscaped = 96

// IsOfSubject reports whether a name has the form of those that stand for subjects that aren't names themselves.
func IsOfSubject(name string) bool {
	return strings.HasPrefix(name, escaped) || strings.HasPrefix(name, hashed)
}

// OfSubject returns the name that stands for the subject of a user in names of channels and subscribers: the subject
// itself if it is a valid name, or else "xs--" and the subject, with each byte that isn't a letter, a digit, "." or "-"
// as "_" and two hexadecimal digits. "auth0|17" is xs--auth0_7C17. If that has more than 96 bytes, the name is "xh--"
// and the SHA-256 of the subject in hexadecimal. No two subjects have the same name: one that begins with either prefix
// is written in the same way. The name of "" is "".
func OfSubject(subject string) string {
	if subject == "" || Wrong(subject) == "" && !IsOfSubject(subject) {
		return subject
	}
	var b strings.Builder
	b.WriteString(escaped)
	for i := range len(subject) {
		if c := subject[i]; c == '.' || c == '-' || c != '_' && c != ':' && allowed(c, false) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02X", c)
		}
	}
	if b.Len() > maxEscaped {
		sum := sha256.Sum256([]byte(subject))
		return hashed + hex.EncodeToString(sum[:])
	}
	return b.String()
}
