package channels

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
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
	if event.Kind == channel.EventUnsubscribed || event.Kind == channel.EventSought {
		s.ttls.remove(s.keys(name).Mark(event.Subscriber))
	}
	return event
}

var errNotification = errors.New("not a notification")

// parseNotification parses "<epoch> <clock> <envelope>", "<epoch> <clock>" for a message that is too large for its
// notification, "<epoch> <clock> !<subscriber>" for a subscriber that was removed, "<epoch> <clock> @<subscriber>" for
// one whose mark was set, "<epoch> <clock> #" if the channel was deleted, or "<epoch> <clock> $" if it was closed.
func parseNotification(text string) (channel.Event, error) {
	epochText, rest, _ := strings.Cut(text, " ")
	clockText, body, _ := strings.Cut(rest, " ")
	epoch, err := ulid.ParseStrict(epochText)
	if err != nil {
		return channel.Event{}, fmt.Errorf("%w: epoch: %w", errNotification, err)
	}
	at, err := clock.Parse(clockText)
	if err != nil {
		return channel.Event{}, fmt.Errorf("%w: clock: %w", errNotification, err)
	}
	event := channel.Event{Kind: channel.EventPublished, Position: channel.Position{Epoch: epoch, Clock: at}}
	switch {
	case body == "":
		return event, nil
	case body[0] == '!':
		event.Kind, event.Subscriber = channel.EventUnsubscribed, body[1:]
		return event, nil
	case body[0] == '@':
		event.Kind, event.Subscriber = channel.EventSought, body[1:]
		return event, nil
	case body == "#":
		event.Kind = channel.EventDeleted
		return event, nil
	case body == "$":
		event.Kind, event.Closed = channel.EventClosed, true
		return event, nil
	}
	m, err := parseEnvelope([]byte(body), at)
	if err != nil {
		return channel.Event{}, fmt.Errorf("%w: %w", errNotification, err)
	}
	event.Message = &m
	return event, nil
}
