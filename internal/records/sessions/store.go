package sessions

import (
	"context"
	"time"
)

// Store keeps sessions. All methods may be repeated.
type Store interface {
	Writer
	Reader
}

// Writer changes sessions.
type Writer interface {
	// Create makes a session, and returns it. If its user has Rules.PerUser already, those that were idle longest end.
	// If a session with the ID exists, it is returned.
	Create(ctx context.Context, d Draft, r Rules) (Session, error)
	// Rotate gives a session another ID, and the full TTL from now on. If there is one with that ID already, it is
	// returned. Errors: ErrNotFound.
	Rotate(ctx context.Context, of Ref, newID string, r Rules) (Session, error)
	// Revoke ends a session. It succeeds if the session does not exist.
	Revoke(ctx context.Context, of Ref) error
	// RevokeAll ends all sessions of a user, in one step, and returns how many there were.
	RevokeAll(ctx context.Context, user string) (int, error)
}

// Reader reads sessions in their current state, so not from a replica.
type Reader interface {
	// Check returns a session, and renews it if it was idle for Rules.RenewAfter. Errors: ErrNotFound.
	Check(ctx context.Context, of Ref, r Rules) (Session, error)
	// List returns all sessions of a user, without AuthData, in no order.
	List(ctx context.Context, user string) ([]Session, error)
}

// Draft is the data for a new session.
type Draft struct {
	Ref
	New
}

// Rules apply to all sessions.
type Rules struct {
	TTL     time.Duration // TTL of a session without a check
	PerUser int           // sessions at most
}

// maxIdle is the maximum time that a session is used without being renewed.
const maxIdle = time.Minute

// RenewAfter returns how long a session is idle before a check renews it: not each check is a write.
func (r Rules) RenewAfter() time.Duration { return min(maxIdle, r.TTL/10) }
