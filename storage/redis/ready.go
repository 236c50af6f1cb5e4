package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"
)

// Ready tells whether Redis answers and notifications arrive: it subscribes to a topic of its own, publishes to
// it and waits for that. Errors: ErrUnavailable.
func (s *Store) Ready(ctx context.Context) error {
	topic, nonce := s.keys.readyTopic(s.server+"-"+ulid.Make().String()), "ready"
	return s.retry(ctx, "readiness", func(ctx context.Context) error {
		listening, done := context.WithCancel(ctx)
		defer done()
		confirmed := make(chan struct{}, 1)
		arrived := make(chan struct{}, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- s.receive(listening, topic, receiver{
				confirmed: func() { signal(confirmed) },
				message:   func(string) { signal(arrived); done() },
			})
		}()
		select {
		case err := <-ended:
			return fmt.Errorf("subscribe: %w", err)
		case <-confirmed:
		}
		if err := s.client.Do(ctx, s.client.B().Spublish().Channel(topic).Message(nonce).Build()).Error(); err != nil {
			done()
			return errors.Join(err, <-ended)
		}
		err := <-ended
		select {
		case <-arrived:
			return nil
		default:
			return fmt.Errorf("no notification arrived: %w", err)
		}
	})
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
