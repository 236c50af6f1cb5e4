package redis

import (
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
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// readiness shares checks between calls of Ready.
type readiness struct {
	server  string // names this connection among those to the same Redis
	flights singleflight.Group
	mu      sync.Mutex
	last    time.Time // when the last check began
}

// readyEvery is the minimum time between the starts of two checks.
const readyEvery = 100 * time.Millisecond

// readyTTL is how long the key of a check lives.
const readyTTL = time.Minute

// Ready checks that Redis accepts writes and that published messages arrive. Concurrent calls share one check, and
// checks start at least 100 ms apart, so that many calls cost Redis no more than a few. Errors: ErrUnavailable; if
// Redis refuses writes, the error contains its reply.
func (c *Conn) Ready(ctx context.Context) error {
	checked := c.readiness.flights.DoChan("", func() (any, error) {
		detached := context.WithoutCancel(ctx) // other calls share the check
		<-time.After(c.readiness.begin())
		return nil, c.Retry(detached, "readiness", c.checkReady)
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

// checkReady writes a key, publishes a message to itself, and waits for it. Every check uses the same key and topic.
func (c *Conn) checkReady(ctx context.Context) error {
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
			if err := c.writeReady(ctx, nonce); err != nil {
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

// writeReady writes the key and publishes. A reply with which Redis refuses all writes is returned to the client at
// once.
func (c *Conn) writeReady(ctx context.Context, nonce string) error {
	results := c.client.DoMulti(ctx,
		c.client.B().Set().Key(readyKey(c.prefix, c.readiness.server)).Value(nonce).Px(readyTTL).Build(),
		c.client.B().Spublish().Channel(readyTopic(c.prefix, c.readiness.server)).Message(nonce).Build())
	for _, result := range results {
		err := result.Error()
		var refusal *rueidis.RedisError
		if errors.As(err, &refusal) && refusesWrites(code(err)) {
			return &fault.Error{
				Kind: fault.Unavailable, Slug: fault.SlugUnavailable, RetryAfter: retryAfter,
				Detail: "Redis refuses writes: " + refusal.Error(),
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
