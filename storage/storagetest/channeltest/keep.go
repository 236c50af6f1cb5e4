package channeltest

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
			name: "a receipt of a dropped message is good", ring: true, run: keepAckDropped,
			notice: "a slow subscriber of a limited channel is told to read again what it has read",
		},
		{
			name: "a receipt whose clock went to another message that was dropped since is refused", ring: true, run: keepAckLost,
			notice: "after a fail-over that lost writes, messages are passed over that nobody saw and nobody counts",
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

func keepAckDropped(s *subject) {
	s.policy.MaxMessages = 3
	ids := numbered(20)
	s.subscribe("s")
	s.subscribe("n")
	s.batch(ids[:3]...)
	read := s.reads("s", 0, ids[:3]...)
	s.publish(ids[3:]...)
	s.ack("s", read)
	require.Equal(s.t, s.at(3), s.markOf("s"))
	s.reads("s", 14, ids[17:]...)
	s.holds(s.next("n", read, 10), 14, ids[17:]...)
}

// keepAckLost does to the channel what a fail-over does that loses its last two publishes.
func keepAckLost(s *subject) {
	s.policy.MaxMessages = 3
	s.subscribe("s")
	s.publish("a", "b", "c")
	lost := s.receiptFor("s", s.reads("s", 0, "a", "b", "c"))
	s.setClock(s.at(1))
	s.expire(message(s.at(2)), message(s.at(3)), record("b"), record("c"))
	ids := numbered(10)
	s.publish(ids...)
	refused := func() {
		s.t.Helper()
		require.ErrorIs(s.t, s.tryAck(lost), channel.ErrReceiptSuperseded)
		_, err := s.tryNext(lost, 10)
		require.ErrorIs(s.t, err, channel.ErrReceiptSuperseded)
		b := s.reads("s", 8, ids[7:]...)
		require.Equal(s.t, s.at(0), b.Mark, "a refused receipt doesn't move the mark")
	}
	refused()
	s.expire(record("m1"), record("m2")) // the message that took its place had a whole life
	refused()
	s.policy.MaxMessages = 100
	s.publish("b", "c") // the publishers repeat what was lost
	require.ErrorIs(s.t, s.tryAck(lost), channel.ErrReceiptSuperseded)
}
