package queues

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// room is how many bytes of notifications wait at most. What has no room is read from the stream.
const room = 1 << 20

// inbox keeps the notifications that wait for a follower. Its methods may be called by many goroutines.
type inbox struct {
	arrived chan struct{} // buffered (capacity 1): texts or doubted

	mu      sync.Mutex
	open    bool     // the subscription is confirmed
	texts   []string // in the order of their arrival
	bytes   int
	doubted bool // notifications may be missing
}

// newInbox returns an inbox whose subscription is not confirmed.
func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

// Add adds a notification. One without a text says that there are changes, but not which. What comes before the
// subscription is confirmed may be of a Redis that has lost what was notified before.
func (b *inbox) Add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += len(text)
	b.doubted = b.doubted || !b.open || text == "" || b.bytes > room
	b.texts = append(b.texts, text)
	b.signal()
}

// Doubt records that notifications may be missing.
func (b *inbox) Doubt() { b.Add("") }

// Confirmed records that from now on all notifications arrive.
func (b *inbox) Confirmed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.doubted = true, true
	b.signal()
}

// Interrupted records that notifications may be missing until Confirmed is called.
func (b *inbox) Interrupted(error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = false
}

// signal wakes Await. The caller holds the lock. If there is doubt the texts are not needed: the stream has them.
func (b *inbox) signal() {
	if b.doubted {
		b.texts = nil
	}
	pace.Signal(b.arrived)
}

// Take returns the notifications and removes them. doubted reports that some may be missing.
func (b *inbox) Take() (texts []string, doubted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	texts, doubted = b.texts, b.doubted
	b.texts, b.bytes, b.doubted = nil, 0, false
	return texts, doubted
}

// Await waits for notifications and takes them. doubted reports that some may be missing, also if none has arrived
// within the limit.
func (b *inbox) Await(ctx context.Context, limit time.Duration) (texts []string, doubted bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-b.arrived:
			if texts, doubted = b.Take(); len(texts) > 0 || doubted {
				return texts, doubted
			}
		case <-timer.C:
			return nil, true
		case <-ctx.Done():
			return nil, true
		}
	}
}
