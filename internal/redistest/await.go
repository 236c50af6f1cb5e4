package redistest

import (
	"context"
	"errors"
	"testing"
	"time"
)

// pollEvery is the pause between two checks: servers don't notify anyone when they are ready.
const pollEvery = 20 * time.Millisecond

// final is an error that no further check can change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll calls check until it returns nil or a final error, which poll returns, or until ctx ends. In the last case it
// returns the last error that wasn't caused by ctx.
func poll(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		var f final
		if err == nil || errors.As(err, &f) {
			return err
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return errors.Join(last, ctx.Err())
		case <-tick.C:
		}
	}
}

// await polls for up to startLimit, and then fails the test.
func await(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startLimit)
	defer cancel()
	if err := poll(ctx, check); err != nil {
		t.Fatalf("redistest: wait for %s: %v", what, err)
	}
}
