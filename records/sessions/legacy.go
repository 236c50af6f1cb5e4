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

	issued time.Time // zero: the token doesn't say
}

// Found is what a key of the source says of a session.
type Found struct {
	Created          time.Time // zero: it doesn't say
	Device, AuthData json.RawMessage
}

// sourceUser is what users are called in keys of the source. Nothing that this service writes begins so and goes on as
// those keys do: a credential can't name another key.
var sourceUser = regexp.MustCompile(`^[0-9A-Za-z_]{1,64}$`)

// jwtStart is what a JSON Web Token begins with: {" in base64url.
const jwtStart = "eyJ"

// ParseLegacy returns what a credential of the source's applications says, if it is one: a JSON Web Token with the
// claims user_id and username, alone or behind both. What it says is not verified.
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
	return l, sourceUser.MatchString(l.User) && New{Username: l.Username}.check() == nil
}

const jwtAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// draft returns what a session is to have that is made of one of the source. What is not as it must be is left out: the
// user stays logged in.
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
