package cache

import (
	"context"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records"
)

// Bounds of the unwritten values of one kind.
const (
	MaxBacklog      = 10_000
	MaxBacklogBytes = 64 << 20
)

// ErrBacklogFull is returned for a write while the number or size of the unwritten values is at its bound.
var ErrBacklogFull = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugBacklogFull, Detail: "too much isn't written to the source of truth yet",
	RetryAfter: writeBackoff,
}

// Queue keeps the values written to write-behind caches, in order, until they are in the source of truth. All methods
// may be called by many goroutines, and are safe to repeat. Their errors are those of package fault, besides those that
// are named.
type Queue interface {
	// Add appends a value. Errors: ErrBacklogFull.
	Add(ctx context.Context, v Value) error
	// Pending returns the last unwritten value of a key.
	Pending(ctx context.Context, key Key) (data []byte, found bool, err error)
	// Read returns the first n values after a position, "" for the beginning.
	Read(ctx context.Context, kind *records.Kind, after string, n int) ([]Queued, error)
	// Done removes written values.
	Done(ctx context.Context, kind *records.Kind, written []Queued) error
	// Watch calls changed when it has begun, and after values were added or removed, until stop.
	Watch(kind *records.Kind, changed func()) (stop func())
}

// Queued is an unwritten value.
type Queued struct {
	Position string // rises with each value of a kind
	ID       string
	Bytes    []byte
}
