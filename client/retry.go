package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// RetryPolicy says how often and how long a call is tried again. In each field zero means the default.
type RetryPolicy struct {
	// MaxElapsed is how long after its first failure a call may still be tried again. Default: 30 seconds.
	MaxElapsed time.Duration
	// MaxTries is how often a call is tried in all. 1 turns trying again off. Default: no limit but MaxElapsed.
	MaxTries int
	// MinPause is the pause after the first failure; each further one is twice as long, give or take a half, up
	// to MaxPause. Where the service says how long to wait, the pause is at least that. Default: 100 milliseconds.
	MinPause time.Duration
	// MaxPause is the longest pause that the client chooses by itself. Default: 5 seconds.
	MaxPause time.Duration
	// StorageFull makes the client try again too where the service's storage has no memory left (507).
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

// retry calls try until it succeeds, its error can't be mended by trying again, the policy has enough, or ctx
// ends. tries is how often it was called.
func (p RetryPolicy) retry(ctx context.Context, try func() error) (tries int, err error) {
	pauses := p.pauses()
	var firstFailure time.Time
	for tries = 1; ; tries++ {
		err = try()
		if err == nil || !p.again(err) || tries == p.MaxTries {
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
		if sleep(ctx, pause) != nil {
			return tries, fmt.Errorf("%w (the last try: %w)", ended(ctx), err)
		}
	}
}

// atLeast is the pause that the service asked for, a little stretched so that not all clients come back at once.
func atLeast(err error) time.Duration {
	var e *Error
	if !errors.As(err, &e) || e.RetryAfter <= 0 {
		return 0
	}
	return e.RetryAfter + rand.N(e.RetryAfter/4+1) //nolint:gosec // no secret, only spread
}

// again tells whether trying again may mend err.
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
	default:
		return false
	}
}

// refusedForGood tells of failures to connect that come from what was asked, not from the moment.
func refusedForGood(err error) bool {
	var certificate *tls.CertificateVerificationError
	var notTLS tls.RecordHeaderError
	return errors.As(err, &certificate) || errors.As(err, &notTLS)
}

// sleep returns early, with an error, when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
