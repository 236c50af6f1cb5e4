package assigner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/callout/jsonhttp"
)

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
	// lastTry is the time to the deadline that a further try must have: less, and its answer would come too late.
	lastTry = 20 * time.Millisecond
)

// call is one that is tried again.
type call struct {
	try   func(ctx context.Context) (jsonhttp.Answer, error)
	again func(error) bool // tells whether a failure may pass
}

// keepTrying makes the call until it succeeds, it fails for good, or ctx has ended or is about to. A context without
// a deadline ends it after DefaultPendingTimeout.
func keepTrying(ctx context.Context, c call) (jsonhttp.Answer, error) {
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
			return jsonhttp.Answer{}, fmt.Errorf("%w (the last try: %w)", err, last)
		case ctx.Err() != nil || !c.again(err):
			return jsonhttp.Answer{}, err
		}
		last = err
		pause := max(pauses.NextBackOff(), asked(err))
		if time.Until(deadline) < pause+lastTry {
			return jsonhttp.Answer{}, fmt.Errorf("there is no time left to try again: %w", err)
		}
		if ended := sleep(ctx, pause); ended != nil {
			return jsonhttp.Answer{}, fmt.Errorf("%w (the last try: %w)", ended, err)
		}
	}
}

// asked is the pause that the answer asked for, a little stretched so that not all matches come back at once.
func asked(err error) time.Duration {
	var status *jsonhttp.StatusError
	if !errors.As(err, &status) || status.RetryAfter <= 0 {
		return 0
	}
	return status.RetryAfter + rand.N(status.RetryAfter/4+1) //nolint:gosec // chance to spread load, not to keep a secret
}

// sleep returns early, with an error, when ctx ends.
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
