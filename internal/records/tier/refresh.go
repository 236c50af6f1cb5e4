package tier

import (
	"context"
	"sync"
)

// refreshes are the calls of Source.Refresh. They are numbered from 1.
type refreshes struct {
	mu        sync.Mutex
	asked     uint64             // the last call
	done      uint64             // the last call whose changes are applied
	advanced  chan struct{}      // closed when done changes; nil: nobody waits
	interrupt context.CancelFunc // ends the wait of the follower; nil: it doesn't wait
}

// Refresh implements shard.Refresher: it returns nil once the last Reader has every change that was announced before
// the call. If announcements may have been missed, that is when everything is loaded again. It returns the cause of ctx
// if that ends first.
func (s *Source) Refresh(ctx context.Context) error {
	call := s.refreshes.ask()
	for {
		done, advanced := s.refreshes.state()
		if done >= call {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ask records a call, and interrupts the follower's wait.
func (r *refreshes) ask() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.interrupt != nil {
		r.interrupt()
	}
	return r.asked
}

// state returns the last call that is done, and a channel that is closed when that changes.
func (r *refreshes) state() (done uint64, advanced <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.advanced == nil {
		r.advanced = make(chan struct{})
	}
	return r.done, r.advanced
}

// last returns the last call.
func (r *refreshes) last() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// finish records that all calls up to one are done.
func (r *refreshes) finish(call uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if call <= r.done {
		return
	}
	r.done = call
	if r.advanced != nil {
		close(r.advanced)
		r.advanced = nil
	}
}

// wait returns a context that also ends when another call follows the returned one, until stop is called. Only the
// follower that runs calls it, for one wait at a time.
func (r *refreshes) wait(ctx context.Context) (waiting context.Context, last uint64, stop func()) {
	waiting, cancel := context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interrupt = cancel
	return waiting, r.asked, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.interrupt = nil
		cancel()
	}
}
