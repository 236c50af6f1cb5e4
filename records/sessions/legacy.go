package sessions

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/access"
)

// Legacy is a credential of Discours.io's applications: a JSON Web Token that names its user. Their keys are
// <user>-<username>-<token> and session:<user>:<token>.
type Legacy struct {
	User, Username, Token string

	issued time.Time // zero: not in the token
}

// Found is the data of a session in a key of Discours.io.
type Found struct {
	Created          time.Time // zero: not in the key, or in no known form
	Listed           bool      // the set of the user's tokens has it; only if Created isn't after Ended
	Ended            time.Time // when all sessions of the user were last ended; zero: they weren't
	Emptied          bool      // the set was emptied before Ended
	Device, AuthData json.RawMessage
}

// sourceUser matches the users in keys of Discours.io, which are numbers.
var sourceUser = regexp.MustCompile(`^[0-9]{1,20}$`)

// braces are in every key of this service that has a part chosen by clients, and in no key of Discours.io. So a
// credential can't name a key of this service, nor one of another installation, whatever its prefix is.
const braces = "{}"

// jwtStart is the beginning of every JSON Web Token: {" in base64url.
const jwtStart = "eyJ"

// ParseLegacy parses a credential of Discours.io's applications: a JSON Web Token with the claims user_id, a number,
// and username, without braces, alone or behind both. The claims are not verified.
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

// IsSourceUser reports whether a user can have sessions of Discours.io.
func IsSourceUser(user string) bool { return sourceUser.MatchString(user) }

// sourceTimes are the layouts of times in keys of Discours.io that aren't numbers: ISO 8601, with T or a space, with or
// without a zone. A fraction of a second may follow the seconds.
var sourceTimes = []string{
	"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z0700", "2006-01-02 15:04:05",
}

// Larger numbers in keys of Discours.io are milliseconds, since they would be after the year 5000 in seconds.
const maxSourceSeconds = 1e11

// SourceTime returns the time in a key of Discours.io: seconds or milliseconds since 1970, with or without a fraction,
// or ISO 8601, in UTC if it has no zone. It returns the zero time for any other text, and for a time in the future.
func SourceTime(text string) time.Time {
	text = strings.Trim(text, `" `)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		if n > maxSourceSeconds {
			n /= 1000
		}
		if n >= 1 && n < maxSourceSeconds { // NaN isn't
			return unlessFuture(time.Unix(int64(n), 0))
		}
		return time.Time{}
	}
	for _, layout := range sourceTimes {
		if at, err := time.Parse(layout, text); err == nil && at.Unix() > 0 {
			return unlessFuture(time.Unix(at.Unix(), 0))
		}
	}
	return time.Time{}
}

// maxSkew is how far ahead the clocks of Discours.io's applications may be.
const maxSkew = time.Minute

// unlessFuture returns the zero time for one in the future, as a local time without its zone can be: it would outlive
// an end of all sessions.
func unlessFuture(at time.Time) time.Time {
	if time.Until(at) > maxSkew {
		return time.Time{}
	}
	return at
}

// draft returns the new session for one of Discours.io. Invalid parts are left out, so that the user stays logged in.
// One whose time isn't known is made now. If it is listed, and the last end of all sessions has emptied the list, it
// was made after that, even if its time is earlier: clocks differ, and a local time may have no zone. Otherwise one
// whose time isn't known may have been made before.
func (l Legacy) draft(f Found) Draft {
	d := Draft{Ref: refOf(l.User, l.Token), New: New{Username: l.Username}, Created: f.Created}
	if d.Created.IsZero() {
		d.Created = l.issued
	}
	switch {
	case f.Listed && f.Emptied && !d.Created.After(f.Ended):
		d.Since = f.Ended.Add(time.Millisecond)
	case !d.Created.IsZero():
		d.Since = d.Created
	default:
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
