package channeltest

import (
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func listenCases() []testCase {
	return []testCase{
		{name: "each new message is an event, in order", clocks: true, run: listenPublishes},
		{name: "the event of a large message has no body", run: listenLarge},
		{name: "a removed subscriber is an event", clocks: true, run: listenUnsubscribe},
		{name: "a channel can be listened to before it exists, and into its next life", run: listenLives},
		{name: "each listener receives all events of its own channel", run: listenOwn},
		{name: "no event follows stop", run: listenStop},
	}
}

// listener receives the events of a subject's channel.
type listener struct {
	s      *subject
	events chan channel.Event
	stop   func()
}

// listen listens to the subject's channel until stop is called, or the test ends.
func (s *subject) listen() *listener {
	l := &listener{s: s, events: make(chan channel.Event, 1000)}
	l.stop = sync.OnceFunc(s.store.Listen(s.channel, func(e channel.Event) { l.events <- e }))
	s.t.Cleanup(l.stop)
	return l
}

// next waits for an event.
func (l *listener) next() channel.Event {
	l.s.t.Helper()
	select {
	case e := <-l.events:
		return e
	case <-time.After(timeout):
		require.FailNow(l.s.t, "no event within the timeout")
	}
	return channel.Event{}
}

// confirmed waits for the confirmation, after which no event is lost.
func (l *listener) confirmed() {
	l.s.t.Helper()
	require.Equal(l.s.t, channel.Event{Kind: channel.EventConfirmed}, l.next(), "the first event")
}

// published waits for the event of the message at a clock. Only confirmations may precede it: a store may confirm
// again at any time.
func (l *listener) published(at clock.Clock) channel.Event {
	l.s.t.Helper()
	e := l.next()
	for e.Kind == channel.EventConfirmed {
		e = l.next()
	}
	require.Equal(l.s.t, channel.EventPublished, e.Kind)
	require.Equal(l.s.t, at, e.Clock, "the clock of the next event")
	require.NotEqual(l.s.t, ulid.ULID{}, e.Epoch)
	if e.Message != nil {
		require.Equal(l.s.t, at, e.Message.Clock)
	}
	return e
}

// small waits for the event of the message at a clock, which must have the message and its ID.
func (l *listener) small(at clock.Clock, id string) channel.Event {
	l.s.t.Helper()
	e := l.published(at)
	require.NotNil(l.s.t, e.Message, "a small message is in its event")
	require.Equal(l.s.t, id, e.Message.ID)
	return e
}

// message waits for the event of a message that a fetch returned.
func (l *listener) message(m channel.Message) {
	l.s.t.Helper()
	e := l.small(m.Clock, m.ID)
	require.Equal(l.s.t, m, *e.Message, "an event has the message that a fetch returns")
}

func listenPublishes(s *subject) {
	s.subscribe("s")
	l := s.listen()
	l.confirmed()
	s.publish("a", "b", "a", "c", "c")
	s.batch("b", "a")
	s.batch("d", "b", "e", "d", "f")
	s.publish("g")
	b := s.reads("s", 0, "a", "b", "c", "d", "e", "f", "g")
	for _, m := range b.Messages {
		l.message(m)
	}
	s.publish("last")
	require.Equal(s.t, s.position(), l.published(s.at(8)).Position)
}

func listenLarge(s *subject) {
	s.subscribe("s")
	l := s.listen()
	l.confirmed()
	large := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	s.send(draft("a"), channel.Draft{ID: "large", Content: large}, draft("b"))
	require.NotNil(s.t, l.published(1).Message)
	require.Nil(s.t, l.published(2).Message, "a megabyte is too large for an event")
	require.NotNil(s.t, l.published(3).Message)
	require.Equal(s.t, []string{"a", "large", "b"}, idsOf(s.fetch("s")))
}

func listenUnsubscribe(s *subject) {
	s.subscribe("s")
	s.subscribe(longName)
	l := s.listen()
	l.confirmed()
	s.publish("a")
	s.unsubscribe("s")
	s.publish("b")
	epoch := s.position().Epoch
	require.NoError(s.t, s.store.Unsubscribe(s.ctx(), s.channel, longName, ulid.ULID{1}))
	require.Equal(s.t, []string{"a", "b"}, idsOf(s.fetch(longName)), "it is subscribed in a later life")
	require.NoError(s.t, s.store.Unsubscribe(s.ctx(), s.channel, longName, epoch))

	l.published(s.at(1))
	at := channel.Position{Epoch: epoch, Clock: s.at(1)}
	require.Equal(s.t, channel.Event{Kind: channel.EventUnsubscribed, Position: at, Subscriber: "s"}, l.next())
	l.published(s.at(2))
	at.Clock = s.at(2)
	require.Equal(s.t, channel.Event{Kind: channel.EventUnsubscribed, Position: at, Subscriber: longName}, l.next())
}

func listenOwn(s *subject) {
	other := s.on("other")
	first, second, third := s.listen(), s.listen(), other.listen()
	first.confirmed()
	second.confirmed()
	third.confirmed()
	for _, id := range numbered(3) {
		other.publish("o" + id)
		s.publish(id)
	}
	for n, id := range numbered(3) {
		first.small(s.at(n+1), id)
		second.small(s.at(n+1), id)
		third.small(s.at(n+1), "o"+id)
	}
	first.stop()
	s.publish("last")
	second.next() // the message, or a new confirmation if the other's stop was an interruption
	other.publish("last")
	third.small(4, "last")
}

func listenStop(s *subject) {
	s.listen().stop() // before it is confirmed
	for _, id := range numbered(3) {
		l := s.listen()
		l.confirmed()
		other := s.listen()
		other.confirmed()
		l.stop()
		s.publish(id)
		for other.next().Kind != channel.EventPublished { // a confirmation
			continue
		}
		select {
		case e := <-l.events:
			require.Equal(s.t, channel.EventConfirmed, e.Kind, "an event after stop")
		default:
		}
	}
}

func listenLives(s *subject) {
	l := s.listen()
	l.confirmed()
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "listening makes no channel")
	s.publish("a")
	first := l.published(1)
	require.Equal(s.t, s.position(), first.Position)
	s.expireAll()
	s.publish("b")
	second := l.small(1, "b")
	require.NotEqual(s.t, first.Epoch, second.Epoch)
	require.Equal(s.t, s.position(), second.Position)
}
