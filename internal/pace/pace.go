// Package pace waits for a time, for a signal, and after failures, with jitter so that servers don't act at the same
// time.
package pace

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Sleep waits until wait has passed or ctx ends. It reports whether ctx is alive.
func Sleep(ctx context.Context, wait time.Duration) bool {
	return SleepUntil(ctx, wait, nil)
}

// SleepUntil is Sleep, and also returns when it receives from end.
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

// Signal sends to a channel that is buffered (capacity 1), unless a signal is in it already. It never blocks.
func Signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Jitter returns d changed by up to a quarter at random, so that servers don't act at the same time.
func Jitter(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2+1) //nolint:gosec // it spreads load and isn't for security
}

// The bounds of the pause between two looks.
const (
	firstLook = time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// Look returns the pause before the next look at something that gives no signal, and that has been waited for since
// began. It is a tenth of the time so far: a short wait isn't made much longer, and a long one costs little.
func Look(began time.Time) time.Duration {
	return min(max(time.Since(began)/10, firstLook), lastLook)
}

// The bounds of a backoff.
const (
	FirstBackoff = 50 * time.Millisecond
	LastBackoff  = 3 * time.Second
)

// NewBackoff returns the waits after successive failures: each NextBackOff is twice the one before, from FirstBackoff to
// LastBackoff, with jitter of a quarter. One goroutine may use it at a time.
func NewBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: FirstBackoff, MaxInterval: LastBackoff, Multiplier: 2, RandomizationFactor: 0.25,
	}
}
