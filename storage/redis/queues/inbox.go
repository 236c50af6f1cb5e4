package queues

import (
	"context"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// maxInboxBytes is the size limit of waiting notifications, in bytes. The changes of dropped ones are read from the
// stream.
const maxInboxBytes = 1 << 20

// inbox holds the notifications that wait for a follower. Its methods may be called by many goroutines.
type inbox struct {
	arrived chan struct{} // buffered (capacity 1): texts or incomplete

	mu         sync.Mutex
	open       bool     // the subscription is confirmed
	texts      []string // in the order of their arrival
	bytes      int
	incomplete bool // notifications may be missing
}

// newInbox returns an inbox whose subscription is not confirmed.
func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

// Add adds a notification. An empty one says that there are changes, without their content. A notification before the
// confirmation of the subscription may come from a Redis that has lost earlier changes.
func (b *inbox) Add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += len(text)
	b.incomplete = b.incomplete || !b.open || text == "" || b.bytes > maxInboxBytes
	b.texts = append(b.texts, text)
	b.signal()
}

// MarkIncomplete records that notifications may be missing.
func (b *inbox) MarkIncomplete() { b.Add("") }

// Confirmed records that from now on all notifications arrive.
func (b *inbox) Confirmed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.incomplete = true, true
	b.signal()
}

// Interrupted records that notifications may be missing until Confirmed is called.
func (b *inbox) Interrupted(error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = false
}

// signal wakes Await. The caller holds the lock. If some may be missing the texts are not needed: the changes are read
// from the stream.
func (b *inbox) signal() {
	if b.incomplete {
		b.texts = nil
	}
	pace.Signal(b.arrived)
}

// TakeAll returns the notifications and removes them. incomplete reports that some may be missing.
func (b *inbox) TakeAll() (texts []string, incomplete bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	texts, incomplete = b.texts, b.incomplete
	b.texts, b.bytes, b.incomplete = nil, 0, false
	return texts, incomplete
}

// Await waits for notifications and takes them. incomplete reports that some may be missing, also if none has arrived
// within the limit.
func (b *inbox) Await(ctx context.Context, limit time.Duration) (texts []string, incomplete bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-b.arrived:
			if texts, incomplete = b.TakeAll(); len(texts) > 0 || incomplete {
				return texts, incomplete
			}
		case <-timer.C:
			return nil, true
		case <-ctx.Done():
			return nil, true
		}
	}
}
