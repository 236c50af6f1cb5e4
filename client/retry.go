package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// RetryPolicy limits how often and for how long a call is retried. In each field zero means the default.
type RetryPolicy struct {
	// MaxElapsed is how long after its first failure a call may be retried. Default: 30 seconds.
	MaxElapsed time.Duration
	// MaxTries is the largest number of tries of a call. 1 turns retries off. Default: no limit but MaxElapsed.
	MaxTries int
	// MinPause is the pause after the first failure. Each further one is twice as long, up to MaxPause, and varies by
	// half. If the service says how long to wait, the pause is at least that. Default: 100 milliseconds.
	MinPause time.Duration
	// MaxPause is the longest pause that the client chooses. Default: 5 seconds.
	MaxPause time.Duration
	// StorageFull makes the client retry also if the service's storage is out of memory (507).
	StorageFull bool
	// Notify is called before each pause, with the failure. It must be safe for concurrent use. Default: nothing.
	Notify func(err error, pause time.Duration)
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	if p.MaxElapsed == 0 {
		p.MaxElapsed = 30 * time.Second
	}
	if p.MinPause == 0 {
		p.MinPause = 100 * time.Millisecond
	}
	if p.MaxPause == 0 {
		p.MaxPause = 5 * time.Second
	}
	if p.Notify == nil {
		p.Notify = func(error, time.Duration) {}
	}
	return p
}

func (p RetryPolicy) pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = p.MinPause, p.MaxPause, 2
	return b
}

// retry calls try until it succeeds, fails with an error after which again returns false, the policy's limits are
// reached, or ctx ends. tries is the number of calls.
func (p RetryPolicy) retry(ctx context.Context, again func(error) bool, try func() error) (tries int, err error) {
	pauses := p.pauses()
	var firstFailure time.Time
	for tries = 1; ; tries++ {
		err = try()
		if err == nil || !again(err) || tries == p.MaxTries {
			return tries, err
		}
		if ctx.Err() != nil {
			return tries, fmt.Errorf("%w (the last try: %w)", ended(ctx), err)
		}
		if firstFailure.IsZero() {
			firstFailure = time.Now()
		}
		pause := max(pauses.NextBackOff(), atLeast(err))
		if time.Since(firstFailure)+pause > p.MaxElapsed {
			return tries, err
		}
		p.Notify(err, pause)
		if !pace.Sleep(ctx, pause) {
			return tries, fmt.Errorf("%w (the last try: %w)", ended(ctx), err)
		}
	}
}

// atLeast returns the pause that the service asked for, with jitter so that not all clients return at once.
func atLeast(err error) time.Duration {
	var e *Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		return 0
	}
	return e.RetryAfter + rand.N(e.RetryAfter/4+1) //nolint:gosec // jitter is not a secret
}

// again reports whether a retry may succeed after err.
func (p RetryPolicy) again(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return errors.Is(err, ErrUnreachable) && !refusedForGood(err)
	}
	switch e.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case http.StatusInsufficientStorage:
		return p.StorageFull
	case http.StatusUnauthorized:
		return e.RetryAfter > 0 // such as a token that begins in a second
	default:
		return false
	}
}

// notExecuted reports whether the failed call has certainly not been executed: the service could not be connected to,
// or refused the call before. A proxy's error may not say so.
func notExecuted(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Status == http.StatusTooManyRequests ||
			e.Slug() != "" && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrNotReplicated)
	}
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// refusedForGood reports whether connecting failed for a reason that doesn't pass.
func refusedForGood(err error) bool {
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &notTLS) || errors.Is(err, errHTTP2)
}
