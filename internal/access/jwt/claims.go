package jwt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidemark-dev/tidemark/internal/access"
)

const maxIDBytes = 256 // of a key's ID

// header holds the members of a token's header that are checked.
type header struct {
	Algorithm string         `json:"alg"`
	KeyID     string         `json:"kid"`
	Critical  jsontext.Value `json:"crit"`
}

// errHeader doesn't describe the error, since that would reveal a part of the token.
var errHeader = errors.New("the header isn't JSON as it must be")

// readHeader returns the header of a token. It refuses duplicate members, critical extensions, and a token that isn't
// in canonical form: verified tokens are cached by their text.
func readHeader(token string) (header, error) {
	if strings.ContainsAny(token, "\r\n") { // which base64 leaves out
		return header{}, errors.New("a line end in the token")
	}
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 {
		return header{}, errors.New("the token isn't a header, claims and a signature")
	}
	var text []byte // of the header
	for i := len(parts) - 1; i >= 0; i-- {
		var err error
		if text, err = base64.RawURLEncoding.Strict().DecodeString(parts[i]); err != nil {
			return header{}, fmt.Errorf("%s: %w", [...]string{"header", "claims", "signature"}[i], err)
		}
	}
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return header{}, errHeader
	}
	switch {
	case h.Critical != nil:
		return header{}, errors.New("the header has crit")
	case len(h.KeyID) > maxIDBytes:
		return header{}, errors.New("the key's ID is too long")
	}
	return h, nil
}

// claims holds the claims of a token. Of the others, only those that Options name are read.
type claims struct {
	Issuer   string                    `json:"iss"`
	Subject  string                    `json:"sub"`
	ID       string                    `json:"jti"`
	Audience audience                  `json:"aud"`
	Expires  *seconds                  `json:"exp"`
	Begins   *seconds                  `json:"nbf"`
	Issued   *seconds                  `json:"iat"`
	Others   map[string]jsontext.Value `json:",embed"`
}

// readClaims parses claims. It refuses duplicate members, and claims of a wrong type.
func readClaims(text []byte) (*claims, error) {
	var c claims
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, errors.New("the claims aren't JSON as it must be") // the library's error has parts of the token
	}
	for _, at := range []*seconds{c.Expires, c.Begins, c.Issued} {
		if at != nil && (*at < 0 || *at > lastSecond) {
			return nil, errors.New("a time of the claims is out of range")
		}
	}
	return &c, nil
}

// setSubject makes another claim than sub the subject. It is empty if the claim is missing, or no text.
func (c *claims) setSubject(claim string) {
	if claim == DefaultSubjectClaim {
		return
	}
	c.Subject = ""
	if value := c.Others[claim]; value.Kind() == jsontext.KindString {
		_ = json.Unmarshal(value, &c.Subject) // it is a string
	}
}

// earlyError is the error of a token that isn't valid yet.
type earlyError struct{ startsIn time.Duration }

func (e *earlyError) Error() string { return "the token is not valid yet" }

// check returns an error unless the claims are valid now. The error is access.ErrExpired or an *earlyError only if the
// claims are valid otherwise.
func (c *claims) check(o *Options, now time.Time) error {
	isOurs := func(a string) bool { return slices.Contains(o.Audience, a) }
	startsIn := c.Begins.time().Add(-o.Leeway).Sub(now)
	switch {
	case c.Expires == nil:
		return errors.New("the claims have no exp")
	case c.Subject == "":
		return fmt.Errorf("the claims have no subject: %s is missing, empty or no text", o.SubjectClaim)
	case o.Issuer != "" && c.Issuer != o.Issuer:
		return errors.New("the token has another issuer (iss), or none")
	case len(o.Audience) > 0 && !slices.ContainsFunc(c.Audience, isOurs):
		return errors.New("the token has another audience (aud), or none")
	case len(o.Audience) == 0 && len(c.Audience) > 0:
		return errors.New("the token has an audience, and none is configured")
	case !now.Before(c.Expires.time().Add(o.Leeway)):
		return access.ErrExpired
	case startsIn > 0:
		return &earlyError{startsIn}
	}
	return nil
}

// audience is the claim aud: one name, or a list of names.
type audience []string

// UnmarshalJSON accepts a string, a list of strings, or null.
func (a *audience) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() == jsontext.KindString {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	var list []*string
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, name := range list {
		if name == nil {
			return errors.New("null in an audience")
		}
		*a = append(*a, *name)
	}
	return nil
}

// seconds is a time in seconds since 1970.
type seconds float64

const lastSecond = 253402300799 // of the year 9999

// time returns the zero time for nil.
func (s *seconds) time() time.Time {
	if s == nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(*s * 1000))
}

// principal returns the principal that the claims describe. claim is the name of the claim with the grants.
func (c *claims) principal(by *key, claim string, leeway time.Duration) (*access.Principal, error) {
	p := &access.Principal{
		Kind: access.User, Subject: c.Subject, Credential: c.ID, Issued: c.Issued.time(),
		Expires: c.Expires.time().Add(leeway),
		Origin:  by,
	}
	text, ok := c.Others[claim]
	if !ok {
		return p, nil
	}
	var err error
	p.Grants, err = access.ParseGrants(text)
	return p, err
}
