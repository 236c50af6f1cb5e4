package channeltest

import (
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func listenCases() []testCase {
	return []testCase{
		{Name: "each message that is published alone is an event, in order", Clocks: true, Run: listenPublishes},
		{Name: "the event of a large message has no body", Run: listenLarge},
		{Name: "a batch is one event, without a body", Clocks: true, Run: listenBatch},
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
	s.Publish("a", "b", "a", "c", "c", "d")
	b := s.Reads("s", 0, "a", "b", "c", "d")
	for _, m := range b.Messages {
		l.Message(m)
	}
	s.Publish("last")
	require.Equal(s.T, s.Position(), l.Published(s.At(5)).Position)
}

func listenLarge(s *testChannel) {
	s.Subscribe("s")
	l := s.Listen()
	l.Confirmed()
	s.Publish("a")
	require.NotNil(s.T, l.Published(1).Message)
	s.Send(channel.Draft{ID: "large", Content: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)})
	require.Nil(s.T, l.Published(2).Message, "a megabyte is too large for an event")
	s.Publish("b")
	require.NotNil(s.T, l.Published(3).Message)
	require.Equal(s.T, []string{"a", "large", "b"}, idsOf(s.Fetch("s")))
}

func listenBatch(s *testChannel) {
	s.Subscribe("s")
	l := s.Listen()
	l.Confirmed()
	s.Batch("a", "b")
	require.Nil(s.T, l.Published(s.At(2)).Message)
	s.Batch("b", "c", "b", "d", "a")
	require.Nil(s.T, l.Published(s.At(4)).Message)
	s.Batch("a", "d", "e") // all but one are duplicates
	require.Nil(s.T, l.Published(s.At(5)).Message)
	s.Batch("e", "a") // no event
	s.Publish("last")
	l.Small(s.At(6), "last")
	require.Equal(s.T, []string{"a", "b", "c", "d", "e", "last"}, idsOf(s.Fetch("s")))
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
