package records

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

// MaxIndexed is how many values can have one tag, or be found by their prefix in one kind.
const MaxIndexed = 100_000

// MaxTaggedTTL is the longest TTL of a value that has tags or is found by its prefix. The index then always outlives
// it.
const MaxTaggedTTL = 30 * 24 * time.Hour

// Errors of stores.
var (
	// ErrNotCached is the error for a value that doesn't exist.
	ErrNotCached = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNotCached, Detail: "the cache has no such value"}
	// ErrIndexFull is returned for a value whose tag, or kind of lists or searches, has too many values.
	ErrIndexFull = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTagFull,
		Detail: "the tag, or the kind, has as many values as it can have"}
)

// CacheKey names a value. Its kind has one placeholder, and is a string.
type CacheKey struct {
	Kind *Kind
	ID   string
}

// CacheStore keeps values. All methods may be called by many goroutines, and are safe to repeat. Their errors are those
// of package fault, besides those that are named.
type CacheStore interface {
	// Read returns an entry for each ID, in order.
	Read(ctx context.Context, kind *Kind, ids []string) ([]Entry, error)
	// Put stores a value. A put that is overtaken by another one, or by an invalidation, or that takes longer than its
	// load lives, 10 s, succeeds without storing its value. After an error of an indexed value's put an older value
	// may be gone. Errors: ErrIndexFull.
	Put(ctx context.Context, v Value) error
	// Invalidate removes values.
	Invalidate(ctx context.Context, kind *Kind, ids []string) error
	// InvalidateTag removes the values of all kinds that have a tag. It returns how many the index had.
	InvalidateTag(ctx context.Context, tag string) (int, error)
	// InvalidatePrefix removes the values whose IDs begin with a prefix, of those that were put as Prefixed.
	InvalidatePrefix(ctx context.Context, kind *Kind, prefix string) (int, error)
	// Listen calls changed with the ID of each value that was read, or changed by this store, and has changed, until
	// stop is called. Changes by this store are reported before its methods return. own is true for the last report of
	// a Put that has stored its value, and of an Invalidate; other reports are of changes before that, or by others.
	// changed must return soon, and not call the store.
	Listen(kind *Kind, changed func(id string, own bool)) (stop func())
}

// Entry is a value as it was read.
type Entry struct {
	Found  bool
	Bytes  []byte // must not be changed
	Shards bool   // by the sharded read tier: of a node, or what this process has written while Redis didn't answer
}

// Event returns the event as which a read of the entry is counted.
func (e Entry) Event() CacheEvent {
	switch {
	case !e.Found:
		return Miss
	case e.Shards:
		return HitShards
	}
	return HitRedis
}

// Value is a value to be stored.
type Value struct {
	Key      CacheKey
	Bytes    []byte
	TTL      time.Duration // 0: permanent, which an indexed value can't be; for Values.Put, that of the kind
	Tags     []string      // it can be invalidated by each
	Prefixed bool          // it can be invalidated by the beginning of its ID; Values.Put sets it
	// Checked is called by Values.Put when the bytes have been checked, which can take several times their memory; nil:
	// it isn't.
	Checked func()
}

// Indexed reports whether a value is in an index: its TTL is at most MaxTaggedTTL.
func (v *Value) Indexed() bool { return v.Prefixed || len(v.Tags) > 0 }

// Announcer is notified of changes of values, on behalf of holders of copies.
type Announcer interface {
	// Announce calls write, which changes values in the store, between two announcements. If the first one fails, write
	// isn't called. It must be called at most once, with ctx or one that ends earlier. Errors: write's, and those of
	// package fault.
	Announce(ctx context.Context, keys []CacheKey, write func(ctx context.Context) error) error
}

// CacheEvent is the outcome of a read, which is counted.
type CacheEvent string

// The events.
const (
	HitRedis    CacheEvent = "hit-redis"   // answered by Redis, or from memory by its client-side caching
	HitShards   CacheEvent = "hit-shards"  // answered without Redis by the sharded read tier
	Miss        CacheEvent = "miss"        // the store doesn't have the value
	Undecodable CacheEvent = "undecodable" // the store's value has another form
)

// CacheMetrics counts events. Count is called for each read, and must be quick.
type CacheMetrics interface {
	Count(kind *Kind, e CacheEvent)
}
