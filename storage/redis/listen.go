package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
)

// Listen subscribes to the channel's sharded pub/sub channel, again and again until stop is called.
func (s *Store) Listen(name string, sink func(channel.Event)) (stop func()) {
	ctx, cancel := context.WithCancel(s.listening)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.listen(ctx, name, sink)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// listen subscribes until ctx ends.
//
// A subscription ends when the slot moves, and the node of the next one may be unknown to the client. So a keyed command
// goes before every one but the first, from which the client learns of the node. Listening counts only from Redis's
// confirmation, which is told as channel.EventConfirmed.
func (s *Store) listen(ctx context.Context, name string, sink func(channel.Event)) {
	topic := s.channel(name).topic()
	var mu sync.Mutex // confirmations and messages come from different goroutines
	emit := func(e channel.Event) {
		mu.Lock()
		defer mu.Unlock()
		sink(e)
	}
	wait := newBackOff()
	for again := false; ctx.Err() == nil; again = true {
		if again {
			if _, err := s.Position(ctx, name); err != nil && !errors.Is(err, channel.ErrNoChannel) {
				s.pause(ctx, wait.NextBackOff())
				continue
			}
		}
		err := s.receive(ctx, topic, receiver{
			confirmed: func() {
				wait.Reset()
				emit(channel.Event{Kind: channel.EventConfirmed})
			},
			message: func(news string) { s.announce(ctx, name, news, emit) },
		})
		if ctx.Err() == nil {
			s.metrics.resubscribed()
			s.logger.DebugContext(ctx, "listening was interrupted", "channel", name, "error", err)
			s.pause(ctx, wait.NextBackOff())
		}
	}
}

// announce tells of a notification. One that can't be read makes everyone look for themselves.
func (s *Store) announce(ctx context.Context, name, news string, emit func(channel.Event)) {
	event, err := parseNews(news)
	if err != nil {
		s.logger.WarnContext(ctx, "a notification can't be read", "channel", name, "error", err)
		event = channel.Event{Kind: channel.EventConfirmed}
	}
	emit(event)
}

// receiver is told of a topic. Its functions are called by different goroutines and must be quick.
type receiver struct {
	confirmed func()            // Redis has confirmed the subscription
	message   func(text string) // a message arrived; it may come before confirmed is called
	repeats   bool              // messages may have the same text: then some may arrive twice, but none is left out
}

// receive subscribes to a topic and returns when the subscription has ended or ctx has. All topics of a Redis node share
// one connection, however many there are. Each call is an interruption of its own: what came before confirmed is lost.
func (s *Store) receive(ctx context.Context, topic string, r receiver) error {
	return s.subscriptions.receive(ctx, topic, r)
}

// pause waits, unless ctx ends before.
func (s *Store) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
