package sessions

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/access"
)

// Legacy is a credential of the source's applications: a JSON Web Token that names its user. Their keys are
// <user>-<username>-<token> and session:<user>:<token>.
type Legacy struct {
	User, Username, Token string

	issued time.Time // zero: not in the token
}

// Found is the data of a session in a key of the source.
type Found struct {
	Created          time.Time // zero: not in the key
	Device, AuthData json.RawMessage
}

// sourceUser matches the users in keys of the source, which are numbers.
var sourceUser = regexp.MustCompile(`^[0-9]{1,20}$`)

// braces are in every key of this service that has a part chosen by clients, and in no key of the source. So a
// credential can't name a key of this service, nor one of another installation, whatever its prefix is.
const braces = "{}"

// jwtStart is the beginning of every JSON Web Token: {" in base64url.
const jwtStart = "eyJ"

// ParseLegacy parses a credential of the source's applications: a JSON Web Token with the claims user_id, a number, and
// username, without braces, alone or behind both. The claims are not verified.
func ParseLegacy(credential string) (Legacy, bool) {
	if len(credential) > access.MaxCredentialBytes {
		return Legacy{}, false
	}
	if strings.HasPrefix(credential, jwtStart) {
		return readClaims(credential)
	}
	at := strings.LastIndex(credential, "-"+jwtStart)
	if at < 0 {
		return Legacy{}, false
	}
	l, ok := readClaims(credential[at+1:])
	return l, ok && credential[:at] == l.User+"-"+l.Username
}

// readClaims reads the claims of a JSON Web Token.
func readClaims(token string) (Legacy, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[0] == "" || parts[2] == "" || strings.Trim(token, jwtAlphabet) != "" {
		return Legacy{}, false
	}
	payload, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	if err != nil {
		return Legacy{}, false
	}
	var c struct {
		User     json.RawMessage `json:"user_id"`
		Username string          `json:"username"`
		Subject  string          `json:"sub"`
		Issued   float64         `json:"iat"`
	}
	if json.Unmarshal(payload, &c) != nil || c.Subject != "" {
		return Legacy{}, false
	}
	l := Legacy{User: strings.Trim(string(c.User), `"`), Username: c.Username, Token: token}
	if c.Issued > 0 && c.Issued < 1<<40 {
		l.issued = time.Unix(int64(c.Issued), 0)
	}
	return l, sourceUser.MatchString(l.User) && !strings.ContainsAny(l.Username, braces) &&
		New{Username: l.Username}.check() == nil
}

const jwtAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// draft returns the new session for one of the source. Invalid parts are left out, so that the user stays logged in.
func (l Legacy) draft(f Found) Draft {
	d := Draft{Ref: refOf(l.User, l.Token), New: New{Username: l.Username}, Since: f.Created}
	if d.Since.IsZero() {
		d.Since = l.issued
	}
	if d.Since.IsZero() {
		d.Since = time.Unix(0, 0)
	}
	if f.Device != nil && checkJSON("", f.Device, MaxDeviceBytes) == nil {
		d.Device = f.Device
	}
	if f.AuthData != nil && checkJSON("", f.AuthData, MaxAuthBytes) == nil {
		d.AuthData = f.AuthData
	}
	return d
}
