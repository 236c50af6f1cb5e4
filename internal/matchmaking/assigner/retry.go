package assigner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout/jsonhttp"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// lastTry is the minimum time before the deadline for another try.
	lastTry = 20 * time.Millisecond
)

// call is a call that may be repeated.
type call struct {
	try   func(ctx context.Context) (jsonhttp.Response, error)
	again func(error) bool // reports whether to repeat the call after an error
}

// keepTrying repeats the call until it succeeds, fails permanently, or the deadline of ctx is near. Without a deadline
// it stops after DefaultPendingTimeout.
func keepTrying(ctx context.Context, c call) (jsonhttp.Response, error) {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		deadline = time.Now().Add(matchmaking.DefaultPendingTimeout)
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = firstPause, longestPause, 2
	var last error
	for {
		answer, err := c.try(ctx)
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil && last != nil:
			return jsonhttp.Response{}, fmt.Errorf("%w (the last try: %w)", err, last)
		case ctx.Err() != nil || !c.again(err):
			return jsonhttp.Response{}, err
		}
		last = err
		pause := max(pauses.NextBackOff(), retryAfterOf(err))
		if time.Until(deadline) < pause+lastTry {
			return jsonhttp.Response{}, fmt.Errorf("no time left to try again: %w", err)
		}
		if ended := sleep(ctx, pause); ended != nil {
			return jsonhttp.Response{}, fmt.Errorf("%w (the last try: %w)", ended, err)
		}
	}
}

// retryAfterOf returns the pause requested by the response, with jitter added.
func retryAfterOf(err error) time.Duration {
	var status *jsonhttp.StatusError
	if !errors.As(err, &status) || status.RetryAfter <= 0 {
		return 0
	}
	return status.RetryAfter + rand.N(status.RetryAfter/4+1) //nolint:gosec // jitter needs no secure randomness
}

// sleep waits for d. It fails if ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
