package records

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// NewSession is the data for a new session.
type NewSession struct {
	Username string          `json:"username"`
	Device   json.RawMessage `json:"deviceInfo,omitempty"` // any JSON
	AuthData json.RawMessage `json:"authData,omitempty"`   // any JSON
}

// IssuedSession is a new session with its token, which no other answer contains.
type IssuedSession struct {
	Token   string    `json:"token"` // it is in no other answer
	User    string    `json:"userId"`
	Expires time.Time `json:"expiresAt"` // unless it is checked
}

// Session describes a session to a back end.
type Session struct {
	User         string          `json:"userId"`
	ID           string          `json:"id"`
	Username     string          `json:"username"`
	Created      time.Time       `json:"createdAt"`
	LastActivity time.Time       `json:"lastActivity"`
	Expires      time.Time       `json:"expiresAt"` // unless it is checked
	Device       json.RawMessage `json:"deviceInfo,omitempty"`
	AuthData     json.RawMessage `json:"authData,omitempty"`
}

// ListedSession describes a session in a list.
type ListedSession struct {
	ID           string          `json:"id"`
	Username     string          `json:"username"`
	Created      time.Time       `json:"createdAt"`
	LastActivity time.Time       `json:"lastActivity"`
	Device       json.RawMessage `json:"deviceInfo,omitempty"`
}

// CreateSession makes a session for a user who has logged in. If its answer was lost it is retried, and the first
// session remains, unused, until it expires. Errors: ErrInvalidSession, ErrInvalidID, client.ErrInvalidBody,
// client.ErrUnavailable.
func (c *Client) CreateSession(ctx context.Context, user string, n NewSession) (IssuedSession, error) {
	var issued IssuedSession
	call := client.Call{What: "create a session", Method: http.MethodPost, Path: []string{"users", user, "sessions"},
		Body: n}
	_, err := c.service.Do(ctx, call, &issued)
	return issued, err
}

// CheckSession returns the session of a token, and renews it. Errors: ErrNoSession, client.ErrUnavailable.
func (c *Client) CheckSession(ctx context.Context, token string) (Session, error) {
	var found Session
	call := client.Call{What: "check a session", Method: http.MethodPost, Path: []string{"sessions", "check"},
		Body: map[string]string{"token": token}}
	_, err := c.service.Do(ctx, call, &found)
	return found, err
}

// RotateSession replaces the token of a session by another one: the old one isn't valid any more. If its answer was
// lost it is retried, and returns the same token. Errors: ErrNoSession, client.ErrUnavailable.
func (c *Client) RotateSession(ctx context.Context, token string) (IssuedSession, error) {
	var issued IssuedSession
	call := client.Call{
		What: "rotate a session", Method: http.MethodPost, Path: []string{"sessions", "rotate"},
		Body: map[string]string{"token": token, "idempotencyKey": rand.Text()},
	}
	_, err := c.service.Do(ctx, call, &issued)
	return issued, err
}

// Sessions returns the sessions of a user, the most recently active one first. Errors: ErrInvalidID,
// client.ErrUnavailable.
func (c *Client) Sessions(ctx context.Context, user string) ([]ListedSession, error) {
	var all struct {
		Sessions []ListedSession `json:"sessions"`
	}
	call := client.Call{What: "list the sessions of " + user, Method: http.MethodGet,
		Path: []string{"users", user, "sessions"}}
	_, err := c.service.Do(ctx, call, &all)
	return all.Sessions, err
}

// RevokeSession ends a session by its ID, if there is one: within a second no server accepts its token, and requests
// that wait with it end. Errors: ErrInvalidID, client.ErrUnavailable.
func (c *Client) RevokeSession(ctx context.Context, user, id string) error {
	call := client.Call{What: "revoke session " + id, Method: http.MethodDelete,
		Path: []string{"users", user, "sessions", id}}
	_, err := c.service.Do(ctx, call, nil)
	return err
}

// RevokeSessions ends all sessions of a user, as RevokeSession does one. Errors: ErrInvalidID, client.ErrUnavailable.
func (c *Client) RevokeSessions(ctx context.Context, user string) error {
	call := client.Call{What: "revoke all sessions of " + user, Method: http.MethodDelete,
		Path: []string{"users", user, "sessions"}}
	_, err := c.service.Do(ctx, call, nil)
	return err
}
