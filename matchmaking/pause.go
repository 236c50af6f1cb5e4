package matchmaking

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// pause waits, and reports whether ctx is alive.
func pause(ctx context.Context, wait time.Duration) bool {
	return pauseUntil(ctx, wait, nil)
}

// pauseUntil waits, but not after something can be received from end. It reports whether ctx is alive.
func pauseUntil(ctx context.Context, wait time.Duration, end <-chan struct{}) bool {
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-end:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// jitter gives a duration within a quarter of d, so that servers don't do the same thing at the same time.
func jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1) //nolint:gosec // no secret hangs on it
}

// backoff is how long to wait after failures in succession. Its zero value is ready. It is used by one goroutine.
type backoff struct{ failures int }

// The bounds of a backoff.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 3 * time.Second
)

// next gives the wait after one more failure.
func (b *backoff) next() time.Duration {
	b.failures++
	return backoffAfter(b.failures)
}

// backoffAfter gives the wait after so many failures in succession.
func backoffAfter(failures int) time.Duration {
	return jitter(min(firstBackoff<<min(failures-1, 10), lastBackoff))
}

func (b *backoff) reset() { b.failures = 0 }

// outage logs that something can't be done, and that it can again, once each. It may be used by many goroutines.
type outage struct {
	log  *slog.Logger
	what string
	down atomic.Bool
}

func newOutage(log *slog.Logger, what string) *outage { return &outage{log: log, what: what} }

// report tells of a try. What failed because ctx ended is none.
func (o *outage) report(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() == nil:
		if o.down.CompareAndSwap(false, true) {
			o.log.WarnContext(ctx, o.what, "error", err)
		}
	case err == nil && o.down.Load():
		if o.down.CompareAndSwap(true, false) {
			o.log.InfoContext(ctx, "recovered: "+o.what)
		}
	}
}
