package watch

import (
	"context"
	"slices"
	"time"
)

// AwaitGone returns nil after a notification that a ticket of a queue was removed, or when enough receives. A
// notification can be lost, or be about an earlier ticket with the ID. Errors: ErrEnded, and that of ctx.
func (w *Watches) AwaitGone(ctx context.Context, queue, id string, enough <-chan time.Time) error {
	f, gone := w.hold(queue, id)
	defer w.release(f, id, gone)
	select {
	case <-gone:
		return nil
	case <-enough:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.drained:
		return ErrEnded
	}
}

// hold returns a channel of a feed that is closed when a ticket is removed.
func (w *Watches) hold(queue, id string) (*feed, chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, gone := w.use(queue), make(chan struct{})
	f.holds[id] = append(f.holds[id], gone)
	return f, gone
}

// release ends one hold, and its use of the feed.
func (w *Watches) release(f *feed, id string, gone chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leave(f)
	rest := slices.DeleteFunc(f.holds[id], func(c chan struct{}) bool { return c == gone })
	if len(rest) == 0 {
		delete(f.holds, id)
		return
	}
	f.holds[id] = rest
}

// removed ends all holds of a ticket. The caller holds Watches' lock.
func (f *feed) removed(id string) {
	for _, gone := range f.holds[id] {
		close(gone)
	}
	delete(f.holds, id)
}
