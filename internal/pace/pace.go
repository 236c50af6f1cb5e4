// Package pace waits: for a time, after failures, and not at the same time as other servers.
package pace

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"
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

// The bounds of a backoff.
const (
	FirstBackoff = 50 * time.Millisecond
	LastBackoff  = 3 * time.Second
)

// NewBackoff returns how long to wait after failures in succession: NextBackOff is the wait after one more, which
// doubles from FirstBackoff to LastBackoff, give or take a quarter. It is used by one goroutine at a time.
func NewBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: FirstBackoff, MaxInterval: LastBackoff, Multiplier: 2, RandomizationFactor: 0.25,
	}
}
