package sessions

import (
	"context"
	"time"
)

// Store keeps sessions. All methods may be repeated.
type Store interface {
	Writer
	Reader
	Source
}

// Writer changes sessions.
type Writer interface {
	// Create makes a session, and returns it. If its user has Rules.PerUser already, those that were idle longest end.
	// If a session with the ID exists, it is returned. Errors: ErrEnded for a session of Discours.io.
	Create(ctx context.Context, d Draft, r Rules) (Session, error)
	// Rotate gives a session another ID, and the full TTL from now on. If there is one with that ID already, it is
	// returned. Errors: ErrNotFound.
	Rotate(ctx context.Context, of Ref, newID string, r Rules) (Session, error)
	// Revoke ends a session. It succeeds if the session does not exist.
	Revoke(ctx context.Context, of Ref) error
	// RevokeAll ends all sessions of a user, in one step, and returns how many there were. With Rules.Legacy, it first
	// removes those of Discours.io that are listed, and others that were made before are refused from now on.
	RevokeAll(ctx context.Context, user string, r Rules) (int, error)
}

// Reader reads sessions in their current state, so not from a replica.
type Reader interface {
	// Check returns a session, and renews it once a tenth of its TTL has passed. Errors: ErrNotFound.
	Check(ctx context.Context, of Ref, r Rules) (Session, error)
	// List returns all sessions of a user, without AuthData, in no order.
	List(ctx context.Context, user string) ([]Session, error)
}

// Source reads and removes the keys that Discours.io's applications wrote, each in a slot of its own.
type Source interface {
	// Find returns the data in a key of Discours.io. If its time isn't known, or isn't after the end, it looks into the
	// list, after it has read the end. Errors: ErrNotFound if there is none.
	Find(ctx context.Context, l Legacy) (Found, error)
	// Forget removes the keys. It succeeds if there are none.
	Forget(ctx context.Context, l Legacy) error
}

// Draft is the data for a new session.
type Draft struct {
	Ref
	New
	// Of a session of Discours.io: it isn't created if all sessions of the user were ended at Since or later. Zero: it
	// is a new one.
	Since   time.Time
	Created time.Time // when it was made; zero: now
}

// Rules apply to all sessions.
type Rules struct {
	TTL     time.Duration // TTL of a session without a check
	PerUser int           // sessions at most
	Legacy  bool          // sessions of Discours.io are accepted
}
