package wire

import (
	"encoding/json"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// NewKey is the body that creates an API key.
type NewKey struct {
	Description string          `json:"description,omitempty"`
	Grants      json.RawMessage `json:"grants"`           // a JSON array
	Limits      string          `json:"limits,omitempty"` // such as requests=100/s,waits=50
	Expires     time.Time       `json:"expires,omitzero"` // zero: never
}

// Key describes an API key, without the key itself.
type Key struct {
	ID string `json:"id"`
	NewKey
	Created    time.Time `json:"created,omitzero"`
	CreatedBy  string    `json:"createdBy,omitempty"` // the name of a principal
	Configured bool      `json:"configured"`          // part of the service's configuration: it can't be deleted
}

// CreatedKey is the answer to the creation of a key.
type CreatedKey struct {
	Key
	Text string `json:"key"` // what requests are sent with: it is in no other answer
}

// Keys is a page of API keys, by ID.
type Keys struct {
	Keys   []Key  `json:"keys"`
	Cursor string `json:"cursor,omitempty"` // of the next page; left out on the last
}

// NewRevocation is the body that revokes a token or the credentials of a subject.
type NewRevocation struct {
	JTI     string    `json:"jti,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Until   time.Time `json:"until,omitzero"` // zero: 30 days from now
}

// Revocation is a revocation in force. It has one of JTI, Subject and Key.
type Revocation struct {
	JTI     string    `json:"jti,omitempty"`
	Subject string    `json:"subject,omitempty"` // the credentials that it got before At
	Key     string    `json:"key,omitempty"`     // the ID of an API key that was deleted
	At      time.Time `json:"at"`                // Redis time
	Until   time.Time `json:"until"`
}

// Revocations is a page of revocations, by what they revoke.
type Revocations struct {
	Revocations []Revocation `json:"revocations"`
	Cursor      string       `json:"cursor,omitempty"` // of the next page; left out on the last
}

// DecodeNewKey decodes the body that creates an API key. The error is an *InputError with SlugInvalidBody.
func DecodeNewKey(body []byte) (k NewKey, err error) {
	err = decode(body, fault.SlugInvalidBody, func(d *strictjson.Decoder) error {
		return d.Object(keyMembers, func(member string) (err error) {
			switch member {
			case "description":
				k.Description, err = d.String()
			case "grants":
				k.Grants, err = d.Raw()
			case "limits":
				k.Limits, err = d.String()
			case "expires":
				k.Expires, err = moment(d)
			}
			return err
		})
	})
	if err == nil && k.Grants == nil {
		err = missing("grants", "")
	}
	return k, err
}

// DecodeNewRevocation decodes the body of a revocation. The error is an *InputError with SlugInvalidBody.
func DecodeNewRevocation(body []byte) (r NewRevocation, err error) {
	err = decode(body, fault.SlugInvalidBody, func(d *strictjson.Decoder) error {
		return d.Object(revocationMembers, func(member string) (err error) {
			switch member {
			case "jti":
				r.JTI, err = d.String()
			case "subject":
				r.Subject, err = d.String()
			case "until":
				r.Until, err = moment(d)
			}
			return err
		})
	})
	return r, err
}

// moment reads a time of RFC 3339.
func moment(d *strictjson.Decoder) (time.Time, error) {
	text, err := d.String()
	if err != nil {
		return time.Time{}, err
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{},
			d.Refuse(&InputError{Slug: fault.SlugInvalidBody, Detail: "must be a time such as 2030-01-31T12:00:00Z"})
	}
	return at.UTC(), nil
}
