package jwt

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"github.com/tidemark-dev/tidemark/access"
)

const maxIDBytes = 256 // of a key's ID

// header is what counts in the header of a token.
type header struct {
	Algorithm string         `json:"alg"`
	KeyID     string         `json:"kid"`
	Critical  jsontext.Value `json:"crit"`
}

// readHeader returns the header of a token. It refuses duplicate members, and extensions that must be understood.
func readHeader(token string) (header, error) {
	if strings.ContainsAny(token, "\r\n") { // which base64 leaves out: a token would have any number of forms
		return header{}, errors.New("a line end in the token")
	}
	encoded, _, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	var h header
	if err := json.Unmarshal(text, &h); err != nil {
		return header{}, errors.New("the header isn't JSON as it must be") // the library's error has parts of the token
	}
	switch {
	case h.Critical != nil:
		return header{}, errors.New("the header has crit")
	case len(h.KeyID) > maxIDBytes:
		return header{}, errors.New("the key's ID is too long")
	}
	return h, nil
}

// claims are what a token says. Other names are not read, except that of the grants.
type claims struct {
	Issuer   string                    `json:"iss"`
	Subject  string                    `json:"sub"`
	ID       string                    `json:"jti"`
	Audience jwt.ClaimStrings          `json:"aud"`
	Expires  *seconds                  `json:"exp"`
	Begins   *seconds                  `json:"nbf"`
	Issued   *seconds                  `json:"iat"`
	Others   map[string]jsontext.Value `json:",embed"`
}

// seconds is a time in seconds since 1970.
type seconds float64

const lastSecond = 253402300799 // of the year 9999

// UnmarshalJSON refuses duplicate members, and what isn't a claim of its kind.
func (c *claims) UnmarshalJSON(text []byte) error {
	type plain claims
	if err := json.Unmarshal(text, (*plain)(c)); err != nil {
		return errors.New("the claims aren't JSON as it must be") // the library's error has parts of the token
	}
	for _, at := range []*seconds{c.Expires, c.Begins, c.Issued} {
		if at != nil && (*at < 0 || *at > lastSecond) {
			return errors.New("a time of the claims is out of range")
		}
	}
	if c.Subject == "" {
		return errors.New("the claims have no subject")
	}
	return nil
}

func (s *seconds) date() (*jwt.NumericDate, error) {
	if s == nil {
		return nil, nil
	}
	return &jwt.NumericDate{Time: s.time()}, nil
}

// time returns the zero time for nil.
func (s *seconds) time() time.Time {
	if s == nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(*s * 1000))
}

// The methods of jwt.Claims.

// GetExpirationTime returns exp.
func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.Expires.date() }

// GetIssuedAt returns iat.
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error) { return c.Issued.date() }

// GetNotBefore returns nbf.
func (c *claims) GetNotBefore() (*jwt.NumericDate, error) { return c.Begins.date() }

// GetIssuer returns iss.
func (c *claims) GetIssuer() (string, error) { return c.Issuer, nil }

// GetSubject returns sub.
func (c *claims) GetSubject() (string, error) { return c.Subject, nil }

// GetAudience returns aud.
func (c *claims) GetAudience() (jwt.ClaimStrings, error) { return c.Audience, nil }

// principal returns whom the claims describe. claim is the name of the grants.
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
