package wire

import (
	"encoding/json"
	"time"
)

// NewSession is the body that creates a session.
type NewSession struct {
	Username string          `json:"username"`
	Device   json.RawMessage `json:"deviceInfo,omitempty"` // any JSON
	AuthData json.RawMessage `json:"authData,omitempty"`   // any JSON
}

// IssuedSession is the answer to the creation or rotation of a session.
type IssuedSession struct {
	Token   string    `json:"token"` // it is in no other answer
	User    string    `json:"userId"`
	Expires time.Time `json:"expiresAt"` // unless it is checked
}

// SessionToken is the body that checks a session.
type SessionToken struct {
	Token string `json:"token"`
}

// SessionRotation is the body that rotates a session.
type SessionRotation struct {
	Token string `json:"token"`
	// IdempotencyKey is a random, secret text. A repetition with the same key has the same answer.
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
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

// ListedSession describes a session in a list. It has no secrets.
type ListedSession struct {
	ID           string          `json:"id"`
	Username     string          `json:"username"`
	Created      time.Time       `json:"createdAt"`
	LastActivity time.Time       `json:"lastActivity"`
	Device       json.RawMessage `json:"deviceInfo,omitempty"`
}

// Sessions are all sessions of a user, the one that was active last first.
type Sessions struct {
	Sessions []ListedSession `json:"sessions"`
}
