package channeltest

import (
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// listener receives the events of the channel.
type listener struct {
	s      *testChannel
	Events chan channel.Event
	Stop   func()
}

// Listen listens to the channel until stop is called, or the test ends.
func (s *testChannel) Listen() *listener {
	l := &listener{s: s, Events: make(chan channel.Event, 1000)}
	l.Stop = sync.OnceFunc(s.Store.Listen(s.Name, func(e channel.Event) { l.Events <- e }))
	s.T.Cleanup(l.Stop)
	return l
}

// Next waits for an event.
func (l *listener) Next() channel.Event {
	l.s.T.Helper()
	select {
	case e := <-l.Events:
		return e
	case <-time.After(timeout):
		require.FailNow(l.s.T, "no event within the timeout")
	}
	return channel.Event{}
}

// Confirmed waits for the confirmation, after which no event is lost.
func (l *listener) Confirmed() {
	l.s.T.Helper()
	require.Equal(l.s.T, channel.Event{Kind: channel.EventConfirmed}, l.Next(), "the first event")
}

// Published waits for the event of the message at a clock. Only confirmations may precede it: a store may confirm
// again at any time.
func (l *listener) Published(at clock.Clock) channel.Event {
	l.s.T.Helper()
	e := l.Next()
	for e.Kind == channel.EventConfirmed {
		e = l.Next()
	}
	require.Equal(l.s.T, channel.EventPublished, e.Kind)
	require.Equal(l.s.T, at, e.Clock, "the clock of the next event")
	require.NotEqual(l.s.T, ulid.ULID{}, e.Epoch)
	if e.Message != nil {
		require.Equal(l.s.T, at, e.Message.Clock)
	}
	return e
}

// Small waits for the event of the message at a clock, which must have the message and its ID.
func (l *listener) Small(at clock.Clock, id string) channel.Event {
	l.s.T.Helper()
	e := l.Published(at)
	require.NotNil(l.s.T, e.Message, "a small message is in its event")
	require.Equal(l.s.T, id, e.Message.ID)
	return e
}

// Message waits for the event of a message that a fetch returned.
func (l *listener) Message(m channel.Message) {
	l.s.T.Helper()
	e := l.Small(m.Clock, m.ID)
	require.Equal(l.s.T, m, *e.Message, "an event has the message that a fetch returns")
}
