package sessions

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// Bounds of a session's fields.
const (
	MaxUsernameBytes = 256
	MaxDeviceBytes   = 2 << 10
	MaxAuthBytes     = 16 << 10
	// MaxPerUser is the most sessions of a user: revoking all of them is one run of a script.
	MaxPerUser = 1000
)

// Session is the data of a session. Times are whole seconds of Redis's clock, except Expires.
type Session struct {
	User         string
	ID           string // the SHA-256 of its token, in hexadecimal
	Username     string
	Created      time.Time
	LastActivity time.Time       // at most Rules.RenewAfter before the last check
	Expires      time.Time       // unless it is checked
	Device       json.RawMessage // nil: none
	AuthData     json.RawMessage // for back ends; nil: none. Lists don't have it.
}

// New is the data of a new session.
type New struct {
	Username string
	Device   json.RawMessage // any JSON; nil: none
	AuthData json.RawMessage // any JSON; nil: none
}

// Issued is a session with its token, which is not stored.
type Issued struct {
	Token string
	Session
}

// ErrNotFound is returned for a token without a session: it was never issued, was revoked or rotated, has expired, or
// is malformed.
var ErrNotFound = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoSession, Detail: "no session has this token"}

func (n New) check() error {
	switch {
	case n.Username == "":
		return invalid("username", "is empty")
	case len(n.Username) > MaxUsernameBytes:
		return invalid("username", tooLong(len(n.Username), MaxUsernameBytes))
	case !records.IsText(n.Username):
		return invalid("username", "isn't UTF-8 without control characters")
	}
	if err := checkJSON("deviceInfo", n.Device, MaxDeviceBytes); err != nil {
		return err
	}
	return checkJSON("authData", n.AuthData, MaxAuthBytes)
}

func checkJSON(field string, value json.RawMessage, limit int) error {
	switch {
	case len(value) > limit:
		return invalid(field, tooLong(len(value), limit))
	case value != nil && !json.Valid(value):
		return invalid(field, "isn't JSON")
	}
	return nil
}

func tooLong(n, limit int) string {
	return fmt.Sprintf("has %d bytes, at most %d are allowed", n, limit)
}

func invalid(field, why string) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidSession, Field: field, Detail: field + " " + why}
}
