package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

var readyScript = lua.Must("ready/ready")

// readiness shares checks between calls of Ready.
type readiness struct {
	server  string // names this connection among those to the same Redis
	flights singleflight.Group
	mu      sync.Mutex
	last    time.Time // when the last check began

	// The check in progress owns these.
	parts []part    // of a Cluster
	read  time.Time // when they were read
}

const (
	// readyEvery is the minimum time between the starts of two checks.
	readyEvery = 100 * time.Millisecond
	// readyTimeout limits a check, with its retries.
	readyTimeout = 4 * time.Second
	// readyTTL is how long the key of a check lives.
	readyTTL = time.Minute
)

// Ready checks that each primary runs a script that writes, and that published messages arrive. Concurrent calls share
// one check, and checks start at least 100 ms apart, so that many calls cost Redis no more than a few. Errors:
// ErrUnavailable. If Redis refuses writes, the error contains its reply. In a Cluster its OutOfReach has the slots of
// the primaries that failed.
func (c *Conn) Ready(ctx context.Context) error {
	checked := c.readiness.flights.DoChan("", func() (any, error) {
		<-time.After(c.readiness.begin())
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout) // other calls share the check
		defer cancel()
		return nil, c.checkReady(detached)
	})
	select {
	case <-ctx.Done():
		return faultOf(fmt.Errorf("readiness: %w", ctx.Err()))
	case check := <-checked:
		return check.Err
	}
}

// begin records the start of a check and returns how long it must wait before.
func (r *readiness) begin() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	delay := max(0, time.Until(r.last.Add(readyEvery)))
	r.last = time.Now().Add(delay)
	return delay
}

// checkReady checks all parts.
func (c *Conn) checkReady(ctx context.Context) error {
	parts := c.readyParts(ctx)
	errs := make([]error, len(parts))
	var checks sync.WaitGroup
	for i, p := range parts {
		checks.Go(func() {
			errs[i] = c.Retry(ctx, "readiness", func(ctx context.Context) error {
				if p.tag == c.readiness.server {
					return c.checkNotified(ctx)
				}
				return c.writeReady(ctx, p.tag, id.New())
			})
		})
	}
	checks.Wait()
	return outOfReach(parts, errs)
}

// outOfReach returns the error of a check. It is the first refusal, if there is one: that of a part that doesn't answer
// says less.
func outOfReach(parts []part, errs []error) error {
	var first *fault.Error
	var slots []string
	var causes []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		var f *fault.Error
		if !errors.As(err, &f) {
			f = fault.ErrUnavailable.WithCause(err)
		}
		causes = append(causes, cmp.Or(f.Cause, err)) // the error of all has the text for clients
		if first == nil || first.Detail == fault.ErrUnavailable.Detail {
			first = f
		}
		if parts[i].slots != "" {
			slots = append(slots, parts[i].slots)
		}
	}
	if first == nil {
		return nil
	}
	failed := first.WithCause(errors.Join(causes...))
	failed.OutOfReach = slots
	return failed
}

// checkNotified writes the key of the server, publishes a message to itself, and waits for it. Every check uses the
// same key and topic.
func (c *Conn) checkNotified(ctx context.Context) error {
	topic, nonce := readyTopic(c.prefix, c.readiness.server), id.New()
	confirmed, arrived, failed := make(chan struct{}, 1), make(chan struct{}, 1), make(chan error, 1)
	defer c.subscriptions.Listen(topic, pubsub.Listener{
		Confirmed: func() { pace.Signal(confirmed) },
		Message: func(text string) {
			if text == nonce {
				pace.Signal(arrived)
			}
		},
		Interrupted: func(err error) {
			select {
			case failed <- err:
			default:
			}
		},
	})()
	for {
		select {
		case <-confirmed:
			if err := c.writeReady(ctx, c.readiness.server, nonce); err != nil {
				return err
			}
		case <-arrived:
			return nil
		case err := <-failed:
			return fmt.Errorf("no notification arrived: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("no notification arrived: %w", ctx.Err())
		}
	}
}

// writeReady runs ready.lua. If Redis refuses all writes, or the script, the error is a fault, so that it isn't tried
// again and clients see the reason.
func (c *Conn) writeReady(ctx context.Context, tag, nonce string) error {
	_, err := c.Try(ctx, readyScript, []string{readyKey(c.prefix, tag)},
		[]string{readyTopic(c.prefix, tag), nonce, Milliseconds(readyTTL)})
	if err == nil {
		return nil
	}
	cause := causeOf(err)
	if cause.Replica {
		c.findPrimary(ctx)
	}
	refused := &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugUnavailable, RetryAfter: refusal.RetryAfter,
		Cause: c.adviser.Explain(err)}
	var reply *rueidis.RedisError
	switch {
	case cause.ReadOnly && errors.As(err, &reply):
		refused.Detail = "Redis refuses writes: " + reply.Error()
	case cause.Code == refusal.NoPermission:
		refused.Detail = "the user of Redis lacks a permission that the service needs"
	default:
		return err
	}
	return refused
}
