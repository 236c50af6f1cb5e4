package storagetest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func keepCases() []testCase {
	return []testCase{
		{
			name: "only the newest messages are kept where the policy has a limit", ring: true, run: keepNewest,
			notice: "a channel grows beyond its limit, or drops messages within it, or doesn't tell that it dropped some",
		},
		{
			name: "a batch larger than the limit leaves its newest messages", ring: true, run: keepBatch,
			notice: "a large batch breaks a channel's limit",
		},
		{
			name: "a lower limit holds at once", ring: true, run: keepLowered,
			notice: "after the limit was lowered, subscribers still get what shouldn't be kept, or lose more",
		},
		{
			name: "a higher limit brings nothing back", ring: true, run: keepRaised,
			notice: "after the limit was raised, a subscriber is stuck at messages that are gone",
		},
		{
			name: "acknowledging works over dropped messages", ring: true, run: keepAck,
			notice: "a slow subscriber of a limited channel can't acknowledge what it got",
		},
		{
			name: "a limit of one keeps the latest message", ring: true, run: keepOne,
			notice: "a channel that shall hold the latest state holds none, or two",
		},
	}
}

func keepNewest(s *subject) {
	s.policy.MaxMessages = 4
	ids := numbered(10)
	s.subscribe("s")
	for n, id := range ids {
		s.publish(id)
		if gone := n + 1 - 4; gone > 0 {
			require.Zero(s.t, s.life(message(s.at(gone))), "the message that is one too old takes no memory any more")
		}
	}
	b := s.reads("s", 6, ids[6:]...)
	require.Equal(s.t, s.at(10), b.Through)
	d := s.describe()
	require.Equal(s.t, uint64(4), d.Live)
	require.Equal(s.t, s.at(7), d.Oldest)
	s.subscribeFrom("early", channel.From{Start: channel.StartEarliest})
	s.reads("early", 0, ids[6:]...)
}

func keepBatch(s *subject) {
	s.policy.MaxMessages = 3
	ids := numbered(10)
	s.subscribe("s")
	for i, p := range s.batch(ids...) {
		require.Equal(s.t, s.at(i+1), p.Clock)
	}
	s.reads("s", 7, ids[7:]...)
	var live int
	for n := range ids {
		if s.life(message(s.at(n+1))) > 0 {
			live++
		}
	}
	require.Equal(s.t, 3, live, "messages that take memory")
}

func keepLowered(s *subject) {
	ids := numbered(10)
	s.subscribe("s")
	s.batch(ids...)
	s.policy.MaxMessages = 5
	s.reads("s", 5, ids[5:]...)
	require.Equal(s.t, uint64(5), s.describe().Live)
	s.subscribeFrom("early", channel.From{Start: channel.StartEarliest})
	s.reads("early", 0, ids[5:]...)
	s.publish("new")
	s.reads("s", 6, join(ids[6:], []string{"new"})...)
}

func keepRaised(s *subject) {
	s.policy.MaxMessages = 2
	ids := numbered(6)
	s.subscribe("s")
	s.batch(ids...)
	s.policy.MaxMessages = 5
	s.reads("s", 4, ids[4:]...)
	s.publish("a", "b", "c")
	s.reads("s", 4, "m5", "m6", "a", "b", "c")
	s.publish("d")
	s.reads("s", 5, "m6", "a", "b", "c", "d")
}

func keepAck(s *subject) {
	s.policy.MaxMessages = 3
	s.subscribe("s")
	s.publish("a", "b", "c")
	b := s.reads("s", 0, "a", "b", "c")
	s.publish("d", "e", "f", "g") // all of the batch have been dropped
	s.ack("s", b)
	b = s.fetchUpTo("s", 1)
	s.holds(b, 1, "e")
	s.holds(s.next("s", b, 1), 0, "f")
}

func keepOne(s *subject) {
	s.policy.MaxMessages = 1
	s.subscribe("s")
	s.publish("a")
	s.ack("s", s.reads("s", 0, "a"))
	s.batch("b", "c")
	s.publish("d")
	s.subscribeFrom("early", channel.From{Start: channel.StartEarliest})
	s.reads("early", 0, "d")
	s.reads("s", 2, "d")
	require.Greater(s.t, s.life(message(s.at(4))), time.Duration(0))
}
