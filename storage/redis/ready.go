package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/rueidis"
	"golang.org/x/sync/singleflight"

	"github.com/tidemark-dev/tidemark/fault"
)

// readiness lets calls of Ready share checks.
type readiness struct {
	flights singleflight.Group
	mu      sync.Mutex
	last    time.Time // when the last check began
}

// readyEvery is the shortest time between two checks: more calls than that share them.
const readyEvery = 100 * time.Millisecond

// readyTTL is how long the key of a check lives.
const readyTTL = time.Minute

// Ready reports whether Redis takes writes and notifications arrive. Calls at the same time share one check, and checks
// begin at least 100 ms apart, so that many calls cost Redis no more than few. Errors: ErrUnavailable, which names what
// Redis refuses writes with.
func (s *Store) Ready(ctx context.Context) error {
	checked := s.readiness.flights.DoChan("", func() (any, error) {
		detached := context.WithoutCancel(ctx) // of the first call: others share the check
		s.pause(detached, s.readiness.begin())
		return nil, s.retry(detached, "readiness", s.checkReady)
	})
	select {
	case <-ctx.Done():
		return outcome(fmt.Errorf("readiness: %w", ctx.Err()))
	case c := <-checked:
		return c.Err
	}
}

// begin notes that a check is about to begin and returns how long it has to wait.
func (r *readiness) begin() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	delay := max(0, time.Until(r.last.Add(readyEvery)))
	r.last = time.Now().Add(delay)
	return delay
}

// checkReady writes a key, tells itself of it, and waits for that. Every check uses the same key and topic.
func (s *Store) checkReady(ctx context.Context) error {
	topic, nonce := s.keys.readyTopic(s.server), ulid.Make().String()
	var listening sync.WaitGroup
	defer listening.Wait()
	ctx, done := context.WithCancel(ctx)
	defer done()
	confirmed, arrived := make(chan struct{}, 1), make(chan struct{}, 1)
	ended := make(chan error, 1)
	listening.Go(func() {
		ended <- s.receive(ctx, topic, receiver{
			confirmed: func() { signal(confirmed) },
			message: func(text string) {
				if text == nonce {
					signal(arrived)
				}
			},
		})
	})
	for {
		select {
		case <-confirmed:
			if err := s.writeReady(ctx, nonce); err != nil {
				return err
			}
		case <-arrived:
			return nil
		case err := <-ended:
			return fmt.Errorf("no notification arrived: %w", err)
		}
	}
}

// writeReady writes the key and publishes. What Redis refuses any write with is told to the client, at once.
func (s *Store) writeReady(ctx context.Context, nonce string) error {
	c := s.client
	results := c.DoMulti(ctx,
		c.B().Set().Key(s.keys.readyKey(s.server)).Value(nonce).Px(readyTTL).Build(),
		c.B().Spublish().Channel(s.keys.readyTopic(s.server)).Message(nonce).Build())
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

// refusesWrites reports whether an error code says that a server serves reads only.
func refusesWrites(code string) bool {
	switch code {
	case codeReadOnly, "MISCONF", "OOM", "NOREPLICAS":
		return true
	default:
		return false
	}
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
