package keys

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// Store keeps API keys and revocations for all servers.
type Store interface {
	Writer
	Reader
}

// Writer changes the data of a Store. All methods may be repeated.
type Writer interface {
	// Create keeps a new key, if there will be no more than most. It returns the position of the last change then: this
	// one, or a later one if it is repeated. Errors: ErrKeyExists if another key has or had its ID, ErrTooManyKeys.
	Create(ctx context.Context, r Record, limit int) (Position, error)
	// Revoke keeps a revocation, if there will be no more than most, and returns it with its times: At is now unless it
	// is given, Until is DefaultLife later unless it is given. Neither becomes earlier than it is already. To revoke an
	// API key removes its record, also if there are too many revocations: the times are zero then. The position is that
	// of Create, or "" if nothing was ever changed. Errors: ErrNoKey unless there is such a key, was one, or At
	// is given; ErrTooManyRevocations.
	Revoke(ctx context.Context, r Revocation, limit int) (Revocation, Position, error)
}

// Reader reads the current contents of a Store, so not from a replica.
type Reader interface {
	// Last returns the position of the last change, or "" if there was none.
	Last(ctx context.Context) (Position, error)
	// Changes returns the current values of some entries that were changed after a position. Errors: ErrLost if that
	// position, or one of the others, isn't known any more.
	Changes(ctx context.Context, after Position, others ...Position) (Changes, error)
	// Each calls read with all entries, in pages. Entries that change meanwhile may be missing or be read twice.
	Each(ctx context.Context, read func(Entry)) error
	// Watch calls changed after each change, until stop is called, and whenever changes may have been missed. changed
	// must not block.
	Watch(changed func()) (stop func())
}

// Position identifies a change. It is opaque to callers.
type Position string

// Changes is a page of changes.
type Changes struct {
	Entries []Entry
	At      Position // of the last of them
	More    bool     // there may be more
}

// Entry is one value of a store: a record, or a revocation. Both are nil if it was removed.
type Entry struct {
	Record     *Record
	Revocation *Revocation
}

// Record is the stored form of an API key.
type Record struct {
	ID    string
	Value []byte
	Until time.Time // when the store may remove it; zero: never. Stores don't return it.
}

// ErrLost is the error of a store for an unknown position: the caller must read everything.
var ErrLost = errors.New("the changes aren't known any more")

// Errors of keys and revocations. Compare with errors.Is.
var (
	ErrNoKey     = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoKey, Detail: "no API key has this ID"}
	ErrKeyExists = &fault.Error{Kind: fault.Internal, Slug: fault.SlugInternal,
		Detail: "another API key has the ID that was made"}
	ErrKeyConfigured = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugKeyFixed,
		Detail: "the API key is part of the service's configuration: remove it from its file"}
	ErrTooManyKeys = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTooManyKeys,
		Detail: "there are as many API keys as there may be"}
	ErrTooManyRevocations = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugManyRevocations,
		Detail: "there are as many revocations as there may be"}
)
