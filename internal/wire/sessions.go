package wire

import (
	"github.com/tidemark-dev/tidemark/client/records"
)

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

// Sessions are all sessions of a user, the one that was active last first.
type Sessions struct {
	Sessions []records.ListedSession `json:"sessions"`
}
