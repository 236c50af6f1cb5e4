package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func ackCases() []testCase {
	return []testCase{
		{name: "a receipt far ahead of the clock is refused", clocks: true, run: ackAhead},
		{name: "a receipt of a message that another has replaced is refused", clocks: true, run: ackSuperseded},
		{name: "a receipt of a message that was trimmed or has expired is accepted", clocks: true, run: ackGone},
	}
}

func ackAhead(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	b := s.reads("s", 0, "a", "b")
	for _, steps := range []uint64{million, 1 << 52} {
		r := s.receiptFor("s", b)
		r.Clock = r.Clock.Add(steps)
		require.ErrorIs(s.t, s.tryAck(r), channel.ErrReceiptAhead, "%d ahead", steps)
	}
	require.Equal(s.t, s.at(0), s.markOf("s"), "a refused receipt doesn't move the mark")
}

// ackSuperseded simulates a fail-over that loses the channel's last two publishes.
func ackSuperseded(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	lost := s.reads("s", 0, "a", "b", "c")
	kept := s.fetchUpTo("s", 1)
	s.setClock(s.at(1))
	s.expire(message(s.at(2)), message(s.at(3)), record("b"), record("c"))
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", lost)), channel.ErrReceiptAhead)

	s.publish("x", longName, "z") // the longest ID has the clock that c had
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", lost)), channel.ErrReceiptSuperseded)
	require.Equal(s.t, s.at(0), s.markOf("s"), "a refused receipt doesn't move the mark")
	s.ack("s", kept)
	s.ack("s", s.reads("s", 0, "x", longName, "z"))
	s.ack("s", lost) // behind the mark now: a retry
	require.Equal(s.t, s.at(4), s.markOf("s"))
}

func ackGone(s *subject) {
	s.policy.MaxMessages = 3
	s.subscribe("s")
	s.publish("a", "b", "c")
	first, second := s.fetchUpTo("s", 1), s.fetchUpTo("s", 2)
	s.publish("d") // trims a, whose dedup record stays
	s.ack("s", first)
	s.expire(message(s.at(2)), record("b"))
	s.ack("s", second)
	require.Equal(s.t, s.at(2), s.markOf("s"))
}
