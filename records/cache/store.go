package cache

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records"
)

// MaxIndexed is how many values can have one tag, or be found by their prefix in one kind.
const MaxIndexed = 100_000

// MaxTaggedTTL is the longest TTL of a value that has tags or is found by its prefix. The index then always outlives
// it.
const MaxTaggedTTL = 30 * 24 * time.Hour

// Errors of stores and caches.
var (
	// ErrNotFound is returned for a value that doesn't exist. A loader returns it for a value that the source of truth
	// doesn't have.
	ErrNotFound = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNotCached, Detail: "the cache has no such value"}
	// ErrTooLarge is returned for a value that is larger than its kind allows.
	ErrTooLarge = &fault.Error{Kind: fault.TooLarge, Slug: fault.SlugValueTooLarge,
		Detail: "the value is too large for the cache"}
	// ErrIndexFull is returned for a value whose tag has too many values.
	ErrIndexFull = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTagFull,
		Detail: "the tag has as many values as it can have"}
	// ErrSuperseded is returned if the claim on a value has ended: the value was invalidated, or written by another
	// caller.
	ErrSuperseded = &fault.Error{
		Kind: fault.Conflict, Slug: fault.SlugSuperseded,
		Detail: "the value was invalidated, or another was stored, meanwhile",
	}
)

// Key names a value. Its kind has one placeholder, and is a string.
type Key struct {
	Kind *records.Kind
	ID   string
}

// Store keeps values. All methods may be called by many goroutines, and are safe to repeat. Their errors are those of
// package fault, besides those that are named.
type Store interface {
	Reader
	Claims
	Invalidator
}

// Reader reads through memory, and reports what changed.
type Reader interface {
	// Read returns an entry for each ID, in order.
	Read(ctx context.Context, kind *records.Kind, ids []string) ([]Entry, error)
	// Watch reads the claim on a value. From then on its changes are reported.
	Watch(ctx context.Context, key Key) (Watched, error)
	// Listen reports changes of values that were read, and of claims that were watched, until stop is called. Changes
	// by this store are reported before its methods return.
	Listen(kind *records.Kind, l Listener) (stop func())
}

// Entry is a value as it was read.
type Entry struct {
	Found bool
	Bytes []byte    // must not be changed
	Until time.Time // when it ends, or must be read again
	// reports whether it can still be kept: call it under the lock under which Listener.Changed drops it
	Fresh func() bool
}

// Watched is the state of a claim. Absent is the time until which a loader's ErrNotFound counts; Entry.Fresh is about
// the claim.
type Watched struct {
	Entry

	Absent bool
}

// Listener is notified of changes. Its functions must return soon, and not call the store.
type Listener struct {
	Changed func(id string)
	Lost    func() // everything may have changed
}

// Claims lets one process at a time make a value.
type Claims interface {
	// Claim claims the right to store a value. Errors: ErrIndexFull.
	Claim(ctx context.Context, key Key, c Claim) (Claimed, error)
	// Store stores a value and ends its claim. With an empty token it needs no claim, and ends that of others; such a
	// value can't be indexed. Errors: ErrSuperseded if the token's claim has ended, also for a repeat, or if one of the
	// tags was invalidated since Value.Began; ErrIndexFull. The value isn't stored then.
	Store(ctx context.Context, v Value) error
	// End ends a claim without a value. For the duration absent, others read that there is no value; 0: not at all.
	End(ctx context.Context, key Key, token string, absent time.Duration) error
}

// Claim is a claim to be made.
type Claim struct {
	Token    string
	TTL      time.Duration // up to MaxClaim
	Mode     Mode
	Prefixed bool // the value can be invalidated by the beginning of its ID
}

// MaxClaim is how long a claim can last.
const MaxClaim = time.Minute

// Mode is a condition for granting a claim.
type Mode string

// The modes.
const (
	Fill    Mode = "fill"    // if there is no value, and no claim
	Refresh Mode = "refresh" // if there is no claim
	Over    Mode = "over"    // always: the value and the claims of others end
)

// Claimed is the outcome of a claim.
type Claimed struct {
	Outcome Outcome
	Bytes   []byte        // of the value, for Stored
	Left    time.Duration // how long this remains so, for Busy and Absent
}

// Outcome is the result of a claim.
type Outcome int

// The outcomes.
const (
	Granted Outcome = iota
	Stored          // there is a value
	Absent          // a loader found nothing a short time ago
	Busy            // claimed by another
)

// Value is a value to be stored.
type Value struct {
	Key   Key
	Token string
	Began time.Time // when the claim was about to be made
	Bytes []byte
	TTL   time.Duration // 0: permanent
	Tags  []string
}

// Invalidator removes values, and ends the claims on them.
type Invalidator interface {
	Invalidate(ctx context.Context, kind *records.Kind, ids []string) error
	// InvalidateTag removes the values of all kinds that have a tag. It returns how many the index had.
	InvalidateTag(ctx context.Context, tag string) (int, error)
	// InvalidatePrefix removes the values whose IDs begin with a prefix, of those that were claimed as Prefixed.
	InvalidatePrefix(ctx context.Context, kind *records.Kind, prefix string) (int, error)
}

// Announcer is notified of changes of values, on behalf of holders of copies.
type Announcer interface {
	// Announce calls write, which changes values in the store, between two announcements. If the first one fails, write
	// isn't called. It must be called at most once, with ctx or one that ends earlier. Errors: write's, and those of
	// package fault.
	Announce(ctx context.Context, keys []Key, write func(ctx context.Context) error) error
}
