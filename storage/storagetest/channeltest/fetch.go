package channeltest

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

func gapCases() []testCase {
	return []testCase{
		{
			name: "expired messages before live ones are passed over", ring: true, run: gapBefore,
			notice: "a subscriber that was away is stuck behind expired messages, or misses live ones",
		},
		{
			name: "a subscriber whose messages have all expired goes on", ring: true, run: gapAll,
			notice: "a subscriber that was away too long polls forever without getting new messages",
		},
		{
			name: "expired messages don't count for max", ring: true, run: gapMax,
			notice: "a fetch returns nothing though live messages stand behind expired ones",
		},
		{
			name: "expired messages count right where bytes end a fetch", ring: true, run: gapBytes,
			notice: "a fetch that is ended by its size tells a wrong number of expired messages",
		},
		{
			name: "messages lost in the middle are passed over", ring: true, run: gapMiddle,
			notice: "a subscriber is stuck at a message that Redis has evicted",
		},
		{
			name: "messages lost at the end are passed over", ring: true, run: gapEnd,
			notice: "a subscriber is stuck before the newest messages when Redis has evicted those",
		},
		{
			name: "a million expired messages are passed over in one fetch", ring: true, run: gapMillion,
			notice: "a subscriber that is far behind needs many fetches, or one that takes forever",
		},
		{
			name: "nobody is too far behind", ring: true, run: gapHuge,
			notice: "a fetch blocks Redis while it walks over what has expired",
		},
		{
			name: "what expires after the fetch can still be acknowledged", ring: true, run: gapAck,
			notice: "a receipt is refused because its messages have expired meanwhile",
		},
	}
}

func gapBefore(s *subject) {
	ids := numbered(40)
	s.subscribe("start")
	s.batch(ids...)
	expired := 0
	for _, n := range []int{1, 2, 15, 16, 17, 31, 33, 39} {
		s.expireMessages(expired+1, n)
		expired = n
		b := s.reads("start", n, ids[n:]...)
		require.Equal(s.t, s.at(n+1), b.Messages[0].Clock)
	}
	s.ack("start", s.fetchUpTo("start", 1))
	s.reads("start", 0)
}

func gapAll(s *subject) {
	for i, n := range []int{1, 5, 40} {
		name := numbered(3)[i]
		s.start = s.subscribe(name).Clock
		for _, id := range numbered(n) {
			s.expire(record(id))
		}
		s.batch(numbered(n)...)
		s.expireMessages(1, n)

		b := s.reads(name, n)
		require.Equal(s.t, s.at(n), b.Through, "the receipt covers what has expired")
		s.ack(name, b)
		b = s.reads(name, 0)
		require.Equal(s.t, s.at(n), b.Mark, "the mark has moved over what has expired")
		s.expire(record("new"))
		s.publish("new")
		s.ack(name, s.reads(name, 0, "new"))
	}
}

func gapMax(s *subject) {
	ids := numbered(60)
	s.subscribe("s")
	s.batch(ids...)
	s.expireMessages(1, 50)
	for _, limit := range []int{1, 2, 9} {
		b := s.fetchUpTo("s", limit)
		s.holds(b, 50, ids[50:50+limit]...)
		require.Equal(s.t, s.at(50+limit), b.Through)
	}
	s.ack("s", s.fetchUpTo("s", 1))
	s.reads("s", 0, ids[51:]...)
}

func gapBytes(s *subject) {
	ids := numbered(40)
	s.subscribe("s")
	s.batch(ids...)
	for _, n := range []int{3, 5, 20} {
		s.expireMessages(1, n)
		r := s.request("s", 100)
		r.MaxBytes = 1
		b := s.fetchWith(r)
		s.holds(b, n, ids[n])
		require.Equal(s.t, s.at(n+1), b.Through)
	}
}

func gapMiddle(s *subject) {
	ids := numbered(70)
	s.subscribe("s")
	s.batch(ids...)
	s.expireMessages(5, 5)
	s.reads("s", 1, join(ids[:4], ids[5:])...)
	s.expireMessages(6, 20)
	s.reads("s", 16, join(ids[:4], ids[20:])...)
	s.expireMessages(21, 60)
	s.reads("s", 56, join(ids[:4], ids[60:])...)

	b := s.fetchUpTo("s", 4)
	s.holds(b, 0, ids[:4]...)
	b = s.next("s", b, 3)
	s.holds(b, 56, ids[60:63]...)
	s.holds(s.next("s", b, 100), 0, ids[63:]...)
}

func join(a, b []string) []string { return append(append([]string{}, a...), b...) }

func gapEnd(s *subject) {
	ids := numbered(50)
	s.subscribe("s")
	s.batch(ids...)
	s.expireMessages(46, 50)
	s.reads("s", 5, ids[:45]...)
	s.expireMessages(11, 45)
	b := s.reads("s", 40, ids[:10]...)
	s.ack("s", b)
	s.publish("new")
	s.reads("s", 0, "new")
}

const million = 1_000_000

func gapMillion(s *subject) {
	s.subscribe("all")
	s.subscribe("some")
	s.setClock(s.at(million))
	b := s.reads("all", million)
	require.Equal(s.t, s.at(million), b.Through)
	s.publish("a", "b")
	s.holds(s.next("all", b, 10), 0, "a", "b")

	b = s.fetchUpTo("some", 1)
	s.holds(b, million, "a")
	require.Equal(s.t, s.at(million+1), b.Through)
	s.holds(s.next("some", b, 10), 0, "b")
}

// gapHuge is a gap that nothing could walk over.
func gapHuge(s *subject) {
	const huge = 1 << 52
	s.subscribe("s")
	s.setClock(s.at(huge))
	b := s.reads("s", huge)
	require.Equal(s.t, s.at(huge), b.Through)
	s.subscribeFrom("early", channel.From{Start: channel.StartEarliest})
	s.publish("a")
	s.reads("s", huge, "a")
	s.reads("early", 0, "a")
	require.Equal(s.t, uint64(1), s.describe().Live)
}

func gapAck(s *subject) {
	s.subscribe("s")
	s.publish(numbered(4)...)
	b := s.fetchUpTo("s", 2)
	s.expireMessages(1, 3)
	s.ack("s", b)
	s.reads("s", 1, "m4")
}
