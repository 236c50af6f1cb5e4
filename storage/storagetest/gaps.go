package storagetest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

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
