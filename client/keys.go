package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// The calls of this file are answered on the service's admin address only.

// NewKey is an API key to create: its description, its grants as a JSON array, and its expiry.
type NewKey struct {
	Description string          `json:"description,omitempty"`
	Grants      json.RawMessage `json:"grants"`           // a JSON array
	Limits      string          `json:"limits,omitempty"` // such as requests=100/s,waits=50
	Expires     time.Time       `json:"expires,omitzero"` // zero: never
}

// Key describes an API key.
type Key struct {
	ID string `json:"id"`
	NewKey
	Created    time.Time `json:"created,omitzero"`
	CreatedBy  string    `json:"createdBy,omitempty"` // the name of a principal
	Configured bool      `json:"configured"`          // part of the service's configuration: it can't be deleted
}

// CreatedKey is a new API key. Its Text is the token for WithToken; the service doesn't store it.
type CreatedKey struct {
	Key
	Text string `json:"key"` // what requests are sent with: it is in no other answer
}

// NewRevocation revokes a token by its jti, or all credentials issued to a subject until now.
type NewRevocation struct {
	JTI     string    `json:"jti,omitempty"`
	Subject string    `json:"subject,omitempty"`
	Until   time.Time `json:"until,omitzero"` // zero: 30 days from now
}

// Revocation is a revocation in force.
type Revocation struct {
	JTI     string    `json:"jti,omitempty"`
	Subject string    `json:"subject,omitempty"` // the credentials that it got before At
	Key     string    `json:"key,omitempty"`     // the ID of an API key that was deleted
	At      time.Time `json:"at"`                // Redis time
	Until   time.Time `json:"until"`
}

// CreateKey makes an API key. If its answer was lost it is tried again, and the first key remains unused: Keys lists
// it. Errors: ErrInvalidKey, with the field that is wrong, ErrInvalidBody, ErrTooManyKeys,
// ErrUnavailable.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (CreatedKey, error) {
	var created CreatedKey
	r := request{what: "create an API key", method: http.MethodPost, path: []string{"keys"}}
	err := c.send(ctx, r, k, &created)
	return created, err
}

// Keys returns all API keys, those of the configuration too, ordered by ID.
func (c *Client) Keys(ctx context.Context) ([]Key, error) {
	var all []Key
	err := c.pages(ctx, "keys", func(body json.RawMessage) (string, error) {
		var page struct {
			Keys   []Key  `json:"keys"`
			Cursor string `json:"cursor"`
		}
		err := json.Unmarshal(body, &page)
		all = append(all, page.Keys...)
		return page.Cursor, err
	})
	return all, err
}

// DeleteKey deletes an API key: within a second no server accepts it any more, and waits with it end. Errors: ErrNoKey,
// ErrKeyConfigured, ErrUnavailable.
func (c *Client) DeleteKey(ctx context.Context, id string) error {
	_, err := c.call(ctx, request{what: "delete API key " + id, method: http.MethodDelete, path: []string{"keys", id}},
		nil)
	return err
}

// Revoke revokes a token, or all credentials issued to a subject until now. Errors: ErrInvalidRevocation,
// ErrInvalidBody, ErrManyRevocations, ErrUnavailable.
func (c *Client) Revoke(ctx context.Context, n NewRevocation) (Revocation, error) {
	var done Revocation
	err := c.send(ctx, request{what: "revoke", method: http.MethodPost, path: []string{"revocations"}}, n, &done)
	return done, err
}

// Revocations returns all revocations in force.
func (c *Client) Revocations(ctx context.Context) ([]Revocation, error) {
	var all []Revocation
	err := c.pages(ctx, "revocations", func(body json.RawMessage) (string, error) {
		var page struct {
			Revocations []Revocation `json:"revocations"`
			Cursor      string       `json:"cursor"`
		}
		err := json.Unmarshal(body, &page)
		all = append(all, page.Revocations...)
		return page.Cursor, err
	})
	return all, err
}

// send calls with a body, and decodes the answer into out.
func (c *Client) send(ctx context.Context, r request, body, out any) (err error) {
	if r.body, err = json.Marshal(body); err != nil {
		return fmt.Errorf("%s: %w", r.what, err)
	}
	_, err = c.call(ctx, r, out)
	return err
}

// pages reads all pages of a list. read decodes one, and returns the cursor of the next.
func (c *Client) pages(ctx context.Context, list string, read func(json.RawMessage) (string, error)) error {
	r := request{what: "list the " + list, method: http.MethodGet, path: []string{list}}
	for {
		var body json.RawMessage
		if _, err := c.call(ctx, r, &body); err != nil {
			return err
		}
		cursor, err := read(body)
		if err != nil || cursor == "" {
			return err
		}
		r.query = url.Values{"cursor": {cursor}}
	}
}
