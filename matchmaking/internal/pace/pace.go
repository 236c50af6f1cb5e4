// Package pace waits: for a time, after failures, and not at the same time as other servers.
package pace

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits, and reports whether ctx is alive.
func Sleep(ctx context.Context, wait time.Duration) bool {
	return SleepUntil(ctx, wait, nil)
}

// SleepUntil waits until wait has passed or something is received from end. It reports whether ctx is alive.
func SleepUntil(ctx context.Context, wait time.Duration, end <-chan struct{}) bool {
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

// Jitter returns a duration within a quarter of d, so that servers don't do the same thing at the same time.
func Jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1) //nolint:gosec // no secret hangs on it
}

// Backoff is how long to wait after failures in succession. Its zero value is ready. It is used by one goroutine.
type Backoff struct{ Failures int }

// The bounds of a Backoff.
const (
	FirstBackoff = 50 * time.Millisecond
	LastBackoff  = 3 * time.Second
)

// Next returns the wait after one more failure.
func (b *Backoff) Next() time.Duration {
	b.Failures++
	return After(b.Failures)
}

// After returns the wait after so many failures in succession.
func After(failures int) time.Duration {
	return Jitter(min(FirstBackoff<<min(failures-1, 10), LastBackoff))
}

// Reset makes the next failure the first one.
func (b *Backoff) Reset() { b.Failures = 0 }
