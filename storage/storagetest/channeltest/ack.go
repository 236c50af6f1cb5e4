package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func ackCases() []testCase {
	return []testCase{
		{Name: "a receipt far ahead of the clock is refused", Clocks: true, Run: ackAhead},
		{Name: "a receipt of a message that another has replaced is refused", Clocks: true, Run: ackSuperseded},
		{Name: "a receipt of a message that was trimmed or has expired is accepted", Clocks: true, Run: ackGone},
	}
}

func ackAhead(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	b := s.Reads("s", 0, "a", "b")
	for _, steps := range []uint64{million, 1 << 52} {
		r := s.ReceiptFor("s", b)
		r.Clock = r.Clock.Add(steps)
		require.ErrorIs(s.T, s.TryAck(r), channel.ErrReceiptAhead, "%d ahead", steps)
	}
	require.Equal(s.T, s.At(0), s.MarkOf("s"), "a refused receipt doesn't move the mark")
}

// ackSuperseded simulates a fail-over that loses the channel's last two publishes.
func ackSuperseded(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	lost := s.Reads("s", 0, "a", "b", "c")
	kept := s.FetchUpTo("s", 1)
	s.SetClock(s.At(1))
	s.Expire(message(s.At(2)), message(s.At(3)), record("b"), record("c"))
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", lost)), channel.ErrReceiptAhead)

	s.Publish("x", longName, "z") // the longest ID gets the clock that c had
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", lost)), channel.ErrReceiptSuperseded)
	require.Equal(s.T, s.At(0), s.MarkOf("s"), "a refused receipt doesn't move the mark")
	s.Ack("s", kept)
	s.Ack("s", s.Reads("s", 0, "x", longName, "z"))
	s.Ack("s", lost) // behind the mark now: a retry
	require.Equal(s.T, s.At(4), s.MarkOf("s"))
}

func ackGone(s *testChannel) {
	s.Policy.MaxMessages = 3
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	first, second := s.FetchUpTo("s", 1), s.FetchUpTo("s", 2)
	s.Publish("d") // trims a, whose dedup record stays
	s.Ack("s", first)
	s.Expire(message(s.At(2)), record("b"))
	s.Ack("s", second)
	require.Equal(s.T, s.At(2), s.MarkOf("s"))
}
