package lease

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// held is a lease that was acquired. Its methods may be called by many goroutines.
type held struct {
	request Request
	fence   uint64
	usable  time.Duration // how long the lease may be used, from the time before its request
	due     time.Time     // when it is renewed next; guarded by the Manager's mu

	mu       sync.Mutex
	deadline time.Time
	failure  error // of the last renewal
	lost     error // nil: it is held
	over     bool  // it is no longer used
	cancel   context.CancelCauseFunc
	timer    *time.Timer
}

// start makes a loss of the lease call cancel.
func (h *held) start(cancel context.CancelCauseFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cancel = cancel
	h.timer = time.AfterFunc(time.Until(h.deadline), func() { _ = h.check() })
}

// stop ends the use of the lease.
func (h *held) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.timer.Stop()
}

// extend records a request that the store granted and that was sent at a time.
func (h *held) extend(sent time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if deadline := sent.Add(h.usable); h.lost == nil && !h.over && deadline.After(h.deadline) {
		h.deadline, h.failure = deadline, nil
		h.timer.Reset(time.Until(deadline))
	}
}

// end returns the time until which the lease may be used.
func (h *held) end() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deadline
}

// fail records that a renewal failed.
func (h *held) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = err
}

// lose records that the store no longer has the lease.
func (h *held) lose(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loseLocked(why)
}

func (h *held) loseLocked(why error) {
	if h.lost == nil && !h.over {
		h.lost = fmt.Errorf("lease %s: %w", h.request.Name, why)
		h.timer.Stop()
		h.cancel(h.lost)
	}
}

// check returns an error if the lease is lost, as it is once its deadline has passed.
func (h *held) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !time.Now().Before(h.deadline) {
		why := fmt.Errorf("%w: it wasn't renewed in time", ErrLost)
		if h.failure != nil {
			why = fmt.Errorf("%w, last error: %v", why, h.failure) //nolint:errorlint // callers look for ErrLost only
		}
		h.loseLocked(why)
	}
	return h.lost
}

// holdingContext is the context of a function that holds a lease. A timer cancels it at the lease's deadline. After a
// pause of the process the timer may be late, so Err reads the clock itself.
type holdingContext struct {
	context.Context //nolint:containedctx // this is a context
	held            *held
}

type heldKey struct{}

// Value implements context.Context.
func (c holdingContext) Value(key any) any {
	if key == (heldKey{}) {
		return c.held
	}
	return c.Context.Value(key)
}

// Deadline returns the time until which the lease that a function holds with ctx, or with a parent of ctx, is valid. A
// renewal moves it, so it isn't the deadline of ctx. It reports false if ctx isn't the context of a lease.
func Deadline(ctx context.Context) (time.Time, bool) {
	h, ok := ctx.Value(heldKey{}).(*held)
	if !ok {
		return time.Time{}, false
	}
	return h.end(), true
}

// Err implements context.Context.
func (c holdingContext) Err() error {
	_ = c.held.check() // cancels
	return c.Context.Err()
}
