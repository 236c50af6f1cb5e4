package redistest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// pollEvery is the pause between two looks at servers, which have no way to tell that they are ready.
const pollEvery = 20 * time.Millisecond

// final is an error after which looking again is of no use.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll calls check until it returns nil or a final error, which it returns, or ctx ends. Then it returns the
// last error that wasn't due to that end.
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

// await polls for up to startLimit, and fails the test where what never comes.
func await(t testing.TB, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startLimit)
	defer cancel()
	if err := poll(ctx, check); err != nil {
		t.Fatalf("redistest: %v", fmt.Errorf("wait for %s: %w", what, err))
	}
}
