package redistest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// final is an error that no further check can change.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// poll calls check until it returns nil or a final error, which poll returns, or until ctx ends. In the last case it
// returns the last error that wasn't caused by ctx.
func poll(ctx context.Context, check func(context.Context) error) error {
	var last error
	for began := time.Now(); ; {
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
		case <-time.After(pace.Look(began)):
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
