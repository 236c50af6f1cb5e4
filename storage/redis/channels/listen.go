package channels

import (
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/redis/pubsub"
)

// Listen subscribes to the channel's topic, and caches the keys of its position, which is read repeatedly meanwhile.
func (s *Store) Listen(name string, sink func(channel.Event)) (stop func()) {
	s.listened.Store(name, s.positionKeys(name))
	end := s.conn.Listen(s.keys(name).Topic(), pubsub.Listener{
		Confirmed: func() { sink(channel.Event{Kind: channel.EventConfirmed}) },
		Message:   func(text string) { sink(s.event(name, text)) },
	})
	return func() {
		end()
		s.listened.Delete(name)
	}
}

// positionKeys returns the keys of a channel's clock and epoch.
func (s *Store) positionKeys(name string) []string {
	if kept, ok := s.listened.Load(name); ok {
		return kept.([]string)
	}
	return []string{s.keys(name).Clock(), s.keys(name).Epoch()}
}

// event decodes a notification. A malformed one is reported as EventConfirmed, after which all waiters read again.
func (s *Store) event(name, text string) channel.Event {
	event, err := parseNotification(text)
	if err != nil {
		s.conn.Logger().Warn("cannot read a notification", "channel", name, "error", err)
		return channel.Event{Kind: channel.EventConfirmed}
	}
	if event.Kind == channel.EventUnsubscribed {
		s.ttls.remove(s.keys(name).Mark(event.Subscriber))
	}
	return event
}
