package channeltest

import (
	"fmt"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func listenCases() []testCase {
	return []testCase{
		{Name: "each new message is an event, in order", Clocks: true, Run: listenPublishes},
		{Name: "the event of a large message has no body", Run: listenLarge},
		{Name: "a large batch is one event, without a body", Clocks: true, Run: listenBatch},
		{Name: "a removed subscriber is an event", Clocks: true, Run: listenUnsubscribe},
		{Name: "a channel can be listened to before it exists, and into its next life", Run: listenLives},
		{Name: "each listener receives all events of its own channel", Run: listenOwn},
		{Name: "no event follows stop", Run: listenStop},
	}
}

func listenPublishes(s *testChannel) {
	s.Subscribe("s")
	l := s.Listen()
	l.Confirmed()
	s.Publish("a", "b", "a", "c", "c")
	s.Batch("b", "a")
	s.Batch("d", "b", "e", "d", "f")
	s.Publish("g")
	b := s.Reads("s", 0, "a", "b", "c", "d", "e", "f", "g")
	for _, m := range b.Messages {
		l.Message(m)
	}
	s.Publish("last")
	require.Equal(s.T, s.Position(), l.Published(s.At(8)).Position)
}

func listenLarge(s *testChannel) {
	s.Subscribe("s")
	l := s.Listen()
	l.Confirmed()
	large := []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	s.Send(draft("a"), channel.Draft{ID: "large", Content: large}, draft("b"))
	require.NotNil(s.T, l.Published(1).Message)
	require.Nil(s.T, l.Published(2).Message, "a megabyte is too large for an event")
	require.NotNil(s.T, l.Published(3).Message)
	require.Equal(s.T, []string{"a", "large", "b"}, idsOf(s.Fetch("s")))
}

func listenBatch(s *testChannel) {
	s.Subscribe("s")
	l := s.Listen()
	l.Confirmed()
	ids := make([]string, 33)
	for i := range ids {
		ids[i] = fmt.Sprint("m", i)
	}
	s.Batch(ids[:32]...)
	for i, id := range ids[:32] {
		l.Small(s.At(i+1), id)
	}
	s.Batch(ids...) // all but one are duplicates
	require.Nil(s.T, l.Published(s.At(33)).Message)
	s.Batch(ids...)
	for i := range ids {
		ids[i] = fmt.Sprint("n", i)
	}
	s.Batch(ids...)
	require.Nil(s.T, l.Published(s.At(66)).Message)
	s.Publish("last")
	l.Small(s.At(67), "last")
	require.Len(s.T, s.Fetch("s").Messages, 67)
}

func listenUnsubscribe(s *testChannel) {
	s.Subscribe("s")
	s.Subscribe(longName)
	l := s.Listen()
	l.Confirmed()
	s.Publish("a")
	s.Unsubscribe("s")
	s.Publish("b")
	epoch := s.Position().Epoch
	require.NoError(s.T, s.Store.Unsubscribe(s.Ctx(), s.Name, longName, ulid.ULID{1}))
	require.Equal(s.T, []string{"a", "b"}, idsOf(s.Fetch(longName)), "it is subscribed in a later life")
	require.NoError(s.T, s.Store.Unsubscribe(s.Ctx(), s.Name, longName, epoch))

	l.Published(s.At(1))
	at := channel.Position{Epoch: epoch, Clock: s.At(1)}
	require.Equal(s.T, channel.Event{Kind: channel.EventUnsubscribed, Position: at, Subscriber: "s"}, l.Next())
	l.Published(s.At(2))
	at.Clock = s.At(2)
	require.Equal(s.T, channel.Event{Kind: channel.EventUnsubscribed, Position: at, Subscriber: longName}, l.Next())
}

func listenOwn(s *testChannel) {
	other := s.On("other")
	first, second, third := s.Listen(), s.Listen(), other.Listen()
	first.Confirmed()
	second.Confirmed()
	third.Confirmed()
	for _, id := range numbered(3) {
		other.Publish("o" + id)
		s.Publish(id)
	}
	for n, id := range numbered(3) {
		first.Small(s.At(n+1), id)
		second.Small(s.At(n+1), id)
		third.Small(s.At(n+1), "o"+id)
	}
	first.Stop()
	s.Publish("last")
	second.Next() // the message, or a new confirmation if the other's stop was an interruption
	other.Publish("last")
	third.Small(4, "last")
}

func listenStop(s *testChannel) {
	s.Listen().Stop() // before it is confirmed
	for _, id := range numbered(3) {
		l := s.Listen()
		l.Confirmed()
		other := s.Listen()
		other.Confirmed()
		l.Stop()
		s.Publish(id)
		for other.Next().Kind != channel.EventPublished { // a confirmation
			continue
		}
		select {
		case e := <-l.Events:
			require.Equal(s.T, channel.EventConfirmed, e.Kind, "an event after stop")
		default:
		}
	}
}

func listenLives(s *testChannel) {
	l := s.Listen()
	l.Confirmed()
	_, err := s.TryPosition()
	require.ErrorIs(s.T, err, channel.ErrNoChannel, "listening makes no channel")
	s.Publish("a")
	first := l.Published(1)
	require.Equal(s.T, s.Position(), first.Position)
	s.ExpireAll()
	s.Publish("b")
	second := l.Small(1, "b")
	require.NotEqual(s.T, first.Epoch, second.Epoch)
	require.Equal(s.T, s.Position(), second.Position)
}
