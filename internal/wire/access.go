package wire

import (
	"encoding/json"
	"time"
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
