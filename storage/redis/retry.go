package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

func newBackOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 4 * time.Millisecond
	b.MaxInterval = 250 * time.Millisecond
	b.Multiplier = 2
	return b
}

// Retry calls op until it succeeds, returns a permanent error, or the time limit ends. op must be safe to repeat. Its
// context says whether the attempt before failed on a wrong node of a Cluster: see At. name is part of the error. Retry
// returns an error of package fault, or ctx's error if ctx was cancelled.
func (c *Conn) Retry(ctx context.Context, name string, op func(context.Context) error) error {
	if tracing.Recorded(ctx) {
		return c.traced(ctx, name, op)
	}
	return c.retry(ctx, name, op)
}

// traced is Retry with a span.
func (c *Conn) traced(ctx context.Context, name string, op func(context.Context) error) error {
	ctx, span := callSpan(ctx, name)
	defer span.End()
	err := c.retry(ctx, name, op)
	if isFailure(err) {
		span.Fail(code(err))
	}
	return err
}

// isFailure reports whether an error is one of the storage, and not of the request.
func isFailure(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && (f.Kind == fault.Unavailable || f.Kind == fault.Internal || f.Kind == fault.StorageFull)
}

// callSpan begins the span of an operation on Redis, if ctx has a span that is recorded.
func callSpan(ctx context.Context, name string) (context.Context, tracing.Span) {
	if !tracing.Recorded(ctx) {
		return ctx, tracing.Span{}
	}
	return tracing.Call(ctx, "redis "+name, tracing.Text("db.system.name", "redis"), tracing.Text("db.operation.name", name))
}

func (c *Conn) retry(ctx context.Context, name string, op func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := op(limited)
	if err == nil {
		return nil
	}
	return c.again(ctx, limited, failure{name: name, op: op, err: err})
}

// failure is an operation that failed once.
type failure struct {
	name string
	op   func(context.Context) error
	err  error
}

// again is the part of Retry after a first failure. It is separate because it needs much stack, and goroutines that
// wait for messages keep the stack of their last call of Retry.
func (c *Conn) again(ctx, limited context.Context, f failure) error {
	wait, err := newBackOff(), f.err
	for transient(err) && limited.Err() == nil && !c.closed.Load() {
		if causeOf(err).Replica {
			c.findPrimary(ctx)
		}
		delay := wait.NextBackOff()
		if deadline, ok := limited.Deadline(); ok && time.Until(deadline) <= delay {
			break
		}
		c.metrics.retried(code(err))
		select {
		case <-limited.Done():
		case <-time.After(delay):
			last := err
			if err = f.op(c.after(limited, last)); err == nil {
				return nil
			}
			if limited.Err() != nil {
				err = fmt.Errorf("%w; then: %w", last, err)
			}
		}
	}
	return c.Failure(ctx, f.name, err)
}

// Failure returns the error of Retry for an operation that failed and isn't tried again.
func (c *Conn) Failure(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", name, ctx.Err())
	}
	if isFault(err) {
		return err
	}
	c.metrics.failed(code(err))
	c.lookFor(ctx, err)
	return fmt.Errorf("%s: %w", name, faultOf(c.adviser.Explain(err)))
}

// RetryEach is Retry for n operations that go to Redis together. It calls try with the indices of the operations to
// try: first all, then those whose errors may pass. try returns an error for each, in the same order. RetryEach returns
// the errors of all operations.
func (c *Conn) RetryEach(ctx context.Context, name string, n int,
	try func(ctx context.Context, pending []int) []error) []error {
	if n == 0 {
		return nil
	}
	pending := make([]int, n)
	for i := range pending {
		pending[i] = i
	}
	var errs []error
	err := c.Retry(ctx, name, func(ctx context.Context) error {
		if span := tracing.From(ctx); n > 1 && span.Recorded() {
			span.Set(tracing.Number(tracing.Calls, n))
		}
		var again []int
		var failed error
		tried := try(ctx, pending)
		if errs == nil {
			errs = tried // of all, in order
		}
		for i, err := range tried {
			switch {
			case err == nil:
				errs[pending[i]] = nil
			case transient(err):
				again, failed = append(again, pending[i]), err
			default:
				errs[pending[i]] = fmt.Errorf("%s: %w", name, faultOf(c.adviser.Explain(err)))
			}
		}
		pending = again
		return failed
	})
	for _, at := range pending {
		errs[at] = err
	}
	return errs
}
