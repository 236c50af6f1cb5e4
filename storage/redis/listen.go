package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/tidemark-dev/tidemark/channel"
)

// Listen subscribes to the channel's sharded pub/sub channel, again and again until ctx ends.
//
// A subscription ends without an error when the slot moves, and its successor may be sent to a node that doesn't
// own the slot any more. So a keyed command goes before every one but the first, from which the client learns the
// owner. Listening counts only from Redis's confirmation, which is told as channel.EventConfirmed.
func (s *Store) Listen(ctx context.Context, name string, sink func(channel.Event)) error {
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
	return nil
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

type receiver struct {
	confirmed func()
	message   func(text string)
}

// receive subscribes to a topic and returns when the subscription has ended or ctx has. It goes on to another node
// of a cluster at once where Redis names one: the client may take a second to learn a slot's new owner.
func (s *Store) receive(ctx context.Context, topic string, r receiver) error {
	err := s.receiveFrom(ctx, s.client, topic, r)
	var refusal *rueidis.RedisError
	if !errors.As(err, &refusal) {
		return err
	}
	if address, moved := refusal.IsMoved(); moved {
		if node, known := s.client.Nodes()[address]; known {
			return s.receiveFrom(ctx, node, topic, r)
		}
	}
	return err
}

// receiveFrom is receive on one client. When ctx ends it unsubscribes on the connection that it had, which is shared
// and stays. It does so after Receive has returned: then subscribing was either sent before or never will be.
func (s *Store) receiveFrom(ctx context.Context, client rueidis.Client, topic string, r receiver) error {
	var connection rueidis.CommandClient
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(sub rueidis.PubSubSubscription) {
		if sub.Kind == "ssubscribe" {
			r.confirmed()
		}
	})
	hooked = rueidis.WithOnReceiveReturnHook(hooked, func(err error, c rueidis.CommandClient) error {
		connection = c
		return err
	})
	err := client.Receive(hooked, client.B().Ssubscribe().Channel(topic).Build(), func(m rueidis.PubSubMessage) {
		r.message(m.Message)
	})
	if ctx.Err() != nil && connection != nil {
		s.unsubscribe(context.WithoutCancel(ctx), connection, topic)
	}
	return err
}

// unsubscribeWait is how long ending a subscription may hold up its listener. Redis hears of it in any case, unless
// the connection ends, and the subscription with it.
const unsubscribeWait = time.Second

func (s *Store) unsubscribe(ctx context.Context, connection rueidis.CommandClient, topic string) {
	limited, cancel := context.WithTimeout(ctx, unsubscribeWait)
	defer cancel()
	err := connection.Do(limited, connection.B().Sunsubscribe().Channel(topic).Build()).Error()
	if err != nil && !errors.Is(err, rueidis.ErrClosing) {
		s.logger.DebugContext(ctx, "unsubscribing failed", "topic", topic, "error", err)
	}
}

// pause waits, unless ctx ends before.
func (s *Store) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
