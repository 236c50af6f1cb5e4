package channels

import (
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis/channels/envelope"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// Listen subscribes to the channel's topic.
func (s *Store) Listen(name string, sink func(channel.Event)) (stop func()) {
	return s.conn.Listen(s.keys(name).Topic(), pubsub.Listener{
		Confirmed: func() { sink(channel.Event{Kind: channel.EventConfirmed}) },
		Message:   func(text string) { sink(s.event(name, text)) },
	})
}

// event decodes a notification. A malformed one is reported as EventConfirmed, after which all waiters read again.
func (s *Store) event(name, text string) channel.Event {
	event, err := envelope.ParseNotification(text)
	if err != nil {
		s.conn.Logger().Warn("cannot read a notification", "channel", name, "error", err)
		return channel.Event{Kind: channel.EventConfirmed}
	}
	if event.Kind == channel.EventUnsubscribed {
		s.lives.Forget(s.keys(name).Mark(event.Subscriber))
	}
	return event
}
