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
		{
			name: "every publish is told of in order", ring: true, run: listenPublishes,
			notice: "a waiting subscriber isn't woken, or gets messages out of order",
		},
		{
			name: "each new message of a batch is told of", ring: true, run: listenBatch,
			notice: "a waiting subscriber gets only a part of a batch",
		},
		{
			name: "a duplicate is told to nobody", run: listenDuplicate,
			notice: "waiting subscribers are woken in vain, or get a message twice",
		},
		{
			name: "a large message is told of without its body", run: listenLarge,
			notice: "large messages are sent to every server that waits, whether it can use them or not",
		},
		{
			name: "a removed subscriber is told of", ring: true, run: listenUnsubscribe,
			notice: "a poll of a subscriber that was removed hangs until its time is over",
		},
		{
			name: "a channel can be listened to before it exists", run: listenBefore,
			notice: "the first message of a channel wakes nobody",
		},
		{
			name: "listeners hear their own channel, each everything", run: listenOwn,
			notice: "a second server's waiting subscribers aren't woken, or are woken by other channels",
		},
		{
			name: "listening ends when it is stopped", run: listenEnds,
			notice: "a server can't be stopped, or logs errors when it is",
		},
		{
			name: "a new life is told of under its epoch", run: listenNewLife,
			notice: "a waiting subscriber takes a message of a new life for one of the old",
		},
	}
}

// listener receives the events of a subject's channel.
type listener struct {
	s      *subject
	events chan channel.Event
	stop   func()
}

// listen begins to listen to the subject's channel, until the test ends at the latest.
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
	case <-time.After(patience):
		require.FailNow(l.s.t, "an event never came")
	}
	return channel.Event{}
}

// confirmed waits until every event is sure to come.
func (l *listener) confirmed() {
	l.s.t.Helper()
	require.Equal(l.s.t, channel.Event{Kind: channel.EventConfirmed}, l.next(), "the first event")
}

// published waits for the message at a clock, which must be the next event but for confirmations: a store may
// confirm again at any time.
func (l *listener) published(at clock.Clock) channel.Event {
	l.s.t.Helper()
	e := l.next()
	for e.Kind == channel.EventConfirmed {
		e = l.next()
	}
	require.Equal(l.s.t, channel.EventPublished, e.Kind)
	require.Equal(l.s.t, at, e.Clock, "the clock of the message that is told of next")
	require.NotEqual(l.s.t, ulid.ULID{}, e.Epoch)
	if e.Message != nil {
		require.Equal(l.s.t, at, e.Message.Clock)
	}
	return e
}

// whole waits for the message at a clock and compares it with what a fetch gives.
func (l *listener) whole(m channel.Message) {
	l.s.t.Helper()
	e := l.published(m.Clock)
	require.NotNil(l.s.t, e.Message, "a small message comes along")
	require.Equal(l.s.t, m, *e.Message, "what is told is what a fetch gives")
}

func listenPublishes(s *subject) {
	s.subscribe("s")
	l := s.listen()
	l.confirmed()
	s.publish(numbered(6)...)
	b := s.reads("s", 0, numbered(6)...)
	for _, m := range b.Messages {
		l.whole(m)
	}
	s.publish("last")
	require.Equal(s.t, s.position(), l.published(s.at(7)).Position)
}

func listenBatch(s *subject) {
	s.subscribe("s")
	s.publish("old")
	l := s.listen()
	l.confirmed()
	s.batch("a", "old", "b", "a", "c", "d")
	s.publish("e")
	b := s.reads("s", 0, "old", "a", "b", "c", "d", "e")
	for _, m := range b.Messages[1:] {
		l.whole(m)
	}
}

func listenDuplicate(s *subject) {
	s.publish("a", "b")
	l := s.listen()
	l.confirmed()
	s.publish("a", "b", "a")
	s.batch("b", "a")
	s.publish("c", "c", "d")
	l.published(3)
	l.published(4)
}

func listenLarge(s *subject) {
	s.subscribe("s")
	l := s.listen()
	l.confirmed()
	large := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	s.send(draft("a"), channel.Draft{ID: "large", Content: large}, draft("b"))
	require.NotNil(s.t, l.published(1).Message)
	require.Nil(s.t, l.published(2).Message, "a megabyte doesn't come along")
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
	s.unsubscribe(longName)
	epoch := s.position().Epoch

	l.published(s.at(1))
	at := channel.Position{Epoch: epoch, Clock: s.at(1)}
	require.Equal(s.t, channel.Event{Kind: channel.EventUnsubscribed, Position: at, Subscriber: "s"}, l.next())
	l.published(s.at(2))
	at.Clock = s.at(2)
	require.Equal(s.t, channel.Event{Kind: channel.EventUnsubscribed, Position: at, Subscriber: longName}, l.next())
}

func listenBefore(s *subject) {
	l := s.listen()
	l.confirmed()
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "listening makes no channel")
	s.publish("a")
	require.Equal(s.t, s.position(), l.published(1).Position)
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
		require.Equal(s.t, id, first.published(s.at(n+1)).Message.ID)
		require.Equal(s.t, id, second.published(s.at(n+1)).Message.ID)
		require.Equal(s.t, "o"+id, third.published(s.at(n+1)).Message.ID)
	}
	first.stop()
	s.publish("last")
	second.next() // the message, or where the other's end was an interruption, a new confirmation
	other.publish("last")
	require.Equal(s.t, "last", third.published(4).Message.ID)
}

func listenEnds(s *subject) {
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
			require.Equal(s.t, channel.EventConfirmed, e.Kind, "an event after the end")
		default:
		}
	}
}

func listenNewLife(s *subject) {
	l := s.listen()
	l.confirmed()
	s.publish("a")
	old := l.published(1).Epoch
	s.expireAll()
	s.publish("b")
	e := l.published(1)
	require.NotEqual(s.t, old, e.Epoch)
	require.Equal(s.t, s.position(), e.Position)
	require.Equal(s.t, "b", e.Message.ID)
}
