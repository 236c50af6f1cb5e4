package queues

import (
	"context"
	"sync"
	"time"
)

// inboxBytes is how many bytes of notifications wait for a follower at most. What has no room is read from the stream.
const inboxBytes = 1 << 20

// inbox is the notifications that wait for a follower. Its methods may be called by many goroutines.
type inbox struct {
	arrived chan struct{} // buffered (capacity 1): texts or doubted

	mu      sync.Mutex
	open    bool     // the subscription is confirmed
	texts   []string // in the order of their arrival
	bytes   int
	doubted bool // notifications may be missing
}

func newInbox() *inbox { return &inbox{arrived: make(chan struct{}, 1)} }

// add adds a notification. One without a text says that there are changes, but not which. What comes before the subscription
// is confirmed may be of a Redis that has lost what was notified before.
func (b *inbox) add(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += len(text)
	b.doubted = b.doubted || !b.open || text == "" || b.bytes > inboxBytes
	b.texts = append(b.texts, text)
	b.signal()
}

// doubt records that notifications may be missing.
func (b *inbox) doubt() { b.add("") }

// confirmed records that from now on all notifications arrive.
func (b *inbox) confirmed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open, b.doubted = true, true
	b.signal()
}

// interrupted records that notifications may be missing until confirmed is called.
func (b *inbox) interrupted(error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = false
}

// signal wakes await. The caller holds the lock. If there is doubt the texts are not needed: the stream has them.
func (b *inbox) signal() {
	if b.doubted {
		b.texts = nil
	}
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// take returns the notifications and removes them. doubted reports that some may be missing.
func (b *inbox) take() (texts []string, doubted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	texts, doubted = b.texts, b.doubted
	b.texts, b.bytes, b.doubted = nil, 0, false
	return texts, doubted
}

// await waits for notifications and takes them. doubted reports that some may be missing, also if none has arrived within the
// limit.
func (b *inbox) await(ctx context.Context, limit time.Duration) (texts []string, doubted bool) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-b.arrived:
			if texts, doubted = b.take(); len(texts) > 0 || doubted {
				return texts, doubted
			}
		case <-timer.C:
			return nil, true
		case <-ctx.Done():
			return nil, true
		}
	}
}
