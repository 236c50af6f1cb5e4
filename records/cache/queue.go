package cache

import (
	"context"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records"
)

// Bounds of what a write-behind cache keeps of one kind until it is written.
const (
	MaxBacklog      = 10_000
	MaxBacklogBytes = 64 << 20
)

// ErrBacklogFull is returned for a write while as much isn't written yet as may be.
var ErrBacklogFull = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugBacklogFull, Detail: "too much isn't written to the source of truth yet",
	RetryAfter: writeBackoff,
}

// Queue keeps what was written to write-behind caches, in order, until it is in the source of truth. All methods may be
// called by many goroutines, and are safe to repeat. Their errors are those of package fault, besides those that are
// named.
type Queue interface {
	// Add appends a value. Errors: ErrBacklogFull.
	Add(ctx context.Context, v Value) error
	// Pending returns the last value of a key that isn't written yet.
	Pending(ctx context.Context, key Key) (data []byte, found bool, err error)
	// Read returns the first n values after a position, "" for the beginning.
	Read(ctx context.Context, kind *records.Kind, after string, n int) ([]Queued, error)
	// Done removes values that are written.
	Done(ctx context.Context, kind *records.Kind, written []Queued) error
	// Watch calls changed when it has begun, and after values were added or removed, until stop.
	Watch(kind *records.Kind, changed func()) (stop func())
}

// Queued is a value that isn't written yet.
type Queued struct {
	Position string // rises with each value of a kind
	ID       string
	Bytes    []byte
}
