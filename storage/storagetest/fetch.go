package storagetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func fetchCases() []testCase {
	return []testCase{
		{
			name: "a fetch reads what stands after the mark", ring: true, run: fetchAfterMark,
			notice: "messages published before the subscription come, or later ones are missing or out of order",
		},
		{
			name: "a fetch with nothing to read has nothing to acknowledge", ring: true, run: fetchNothing,
			notice: "an idle subscriber gets messages or receipts for nothing",
		},
		{
			name: "a message comes again until it is acknowledged", ring: true, run: fetchAgain,
			notice: "a message is lost when its subscriber crashes before acknowledging it",
		},
		{
			name: "subscribers read independently", ring: true, run: fetchIndependent,
			notice: "what one subscriber acknowledges is missing for another",
		},
		{
			name: "max bounds a fetch by count", ring: true, run: fetchMax,
			notice: "a fetch returns more than was asked for, or its receipt covers messages that it didn't return",
		},
		{
			name: "any max leads through all messages", ring: true, run: fetchWalks,
			notice: "messages are skipped or doubled where one fetch ends and the next begins",
		},
		{
			name: "a fetch is bounded by bytes", run: fetchBytes,
			notice: "a fetch of large messages grows without bound",
		},
		{
			name: "a fetch returns one message whatever its size", run: fetchOneAtLeast,
			notice: "a subscriber is stuck before a message that is larger than a fetch may be",
		},
		{
			name: "a fetch without a subscriber is refused", run: fetchNobody,
			notice: "a wrong name polls forever without an error, or makes channels by polling",
		},
	}
}

func fetchAfterMark(s *subject) {
	s.publish("a", "b")
	sub := s.subscribe("s")
	require.Equal(s.t, s.at(2), sub.Clock)
	s.publish("c", "d", "e")
	b := s.reads("s", 0, "c", "d", "e")
	require.Equal(s.t, sub.Epoch, b.Epoch)
	require.Equal(s.t, s.at(2), b.Mark)
	require.Equal(s.t, s.at(5), b.Through)
	for i, m := range b.Messages {
		require.Equal(s.t, s.at(i+3), m.Clock)
	}
}

func fetchNothing(s *subject) {
	s.publish("a", "b", "c")
	s.subscribe("s")
	b := s.reads("s", 0)
	require.Equal(s.t, b.Mark, b.Through, "nothing stands after the mark")
	require.Equal(s.t, s.at(3), b.Clock)
}

func fetchAgain(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	first := s.reads("s", 0, "a", "b")
	require.Equal(s.t, first, s.reads("s", 0, "a", "b"), "the same again")
	s.publish("c", "d")
	s.reads("s", 0, "a", "b", "c", "d")
	s.ack("s", first)
	second := s.reads("s", 0, "c", "d")
	require.Equal(s.t, first.Through, second.Mark)
}

func fetchIndependent(s *subject) {
	s.subscribe("s")
	s.subscribe(longName)
	s.publish("a", "b", "c")
	s.ack("s", s.fetchUpTo("s", 2))
	s.reads("s", 0, "c")
	s.reads(longName, 0, "a", "b", "c")
	s.subscribe("late")
	s.publish("d")
	s.reads("late", 0, "d")
	s.reads("s", 0, "c", "d")
}

func fetchMax(s *subject) {
	s.subscribe("s")
	s.publish(numbered(5)...)
	b := s.fetchUpTo("s", 2)
	s.holds(b, 0, "m1", "m2")
	require.Equal(s.t, s.at(2), b.Through)
	require.Equal(s.t, s.at(5), b.Clock, "there is more")
	s.holds(s.fetchUpTo("s", 1), 0, "m1")
	s.holds(s.fetchUpTo("s", 4), 0, numbered(4)...)
	b = s.fetchUpTo("s", 5)
	s.holds(b, 0, numbered(5)...)
	require.Equal(s.t, b.Clock, b.Through, "there is no more")
}

// fetchWalks has more messages than a store is likely to read at once, and bounds around such numbers.
func fetchWalks(s *subject) {
	ids := numbered(70)
	s.subscribe("start")
	s.batch(ids...)
	for _, limit := range []int{1, 7, 15, 16, 17, 32, 64, 69, 70} {
		name := fmt.Sprintf("by%d", limit)
		s.subscribeFrom(name, channel.From{Start: channel.StartAt, Clock: s.start})
		s.walk(name, limit, ids)
	}
}

// walk reads with a bound until nothing is left, acknowledging on the way.
func (s *subject) walk(name string, limit int, ids []string) {
	s.t.Helper()
	b := s.fetchUpTo(name, limit)
	for {
		n := min(limit, len(ids))
		s.holds(b, 0, ids[:n]...)
		if ids = ids[n:]; len(ids) == 0 {
			break
		}
		require.NotEqual(s.t, b.Clock, b.Through, "there is more")
		b = s.next(name, b, limit)
	}
	require.Equal(s.t, b.Clock, b.Through, "there is no more")
}

func fetchBytes(s *subject) {
	s.subscribe("s")
	kilobyte := []byte(`"` + strings.Repeat("x", 998) + `"`)
	for _, id := range numbered(40) {
		s.send(channel.Draft{ID: id, Content: kilobyte})
	}
	r := s.request("s", 100)
	r.MaxBytes = 5500
	b := s.fetchWith(r)
	require.LessOrEqual(s.t, len(b.Messages), 5, "at most as many messages as have room")
	require.GreaterOrEqual(s.t, len(b.Messages), 4, "about as many messages as have room")
	require.Equal(s.t, b.Messages[len(b.Messages)-1].Clock, b.Through, "the receipt ends where the messages do")

	r.MaxBytes = 30_500 // beyond what a store is likely to read at once
	b = s.fetchWith(r)
	require.LessOrEqual(s.t, len(b.Messages), 30)
	require.GreaterOrEqual(s.t, len(b.Messages), 27)
	require.Len(s.t, s.next("s", b, 100).Messages, 40-len(b.Messages), "the rest comes next")
}

func fetchOneAtLeast(s *subject) {
	s.subscribe("s")
	ids := numbered(3)
	s.publish(ids...)
	r := s.request("s", 100)
	r.MaxBytes = 1
	for i, id := range ids {
		b := s.fetchWith(r)
		s.holds(b, 0, id)
		require.Equal(s.t, s.at(i+1), b.Through)
		s.ack("s", b)
	}
}

func fetchNobody(s *subject) {
	_, err := s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber, "on a channel that doesn't exist")
	_, err = s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "a fetch makes no channel")

	s.publish("a")
	s.subscribe("s")
	_, err = s.store.Fetch(s.ctx(), s.request("S", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber, "on a channel with another subscriber")
	require.Len(s.t, s.describe().Subscribers, 1, "a fetch makes no subscriber")
}
