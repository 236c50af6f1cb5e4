package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/storage/storagetest/channeltest/internal/subject"
)

func ackCases() []subject.Case {
	return []subject.Case{
		{Name: "a receipt far ahead of the clock is refused", Clocks: true, Run: ackAhead},
		{Name: "a receipt of a message that another has replaced is refused", Clocks: true, Run: ackSuperseded},
		{Name: "a receipt of a message that was trimmed or has expired is accepted", Clocks: true, Run: ackGone},
	}
}

func ackAhead(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	b := s.Reads("s", 0, "a", "b")
	for _, steps := range []uint64{subject.Million, 1 << 52} {
		r := s.ReceiptFor("s", b)
		r.Clock = r.Clock.Add(steps)
		require.ErrorIs(s.T, s.TryAck(r), channel.ErrReceiptAhead, "%d ahead", steps)
	}
	require.Equal(s.T, s.At(0), s.MarkOf("s"), "a refused receipt doesn't move the mark")
}

// ackSuperseded simulates a fail-over that loses the channel's last two publishes.
func ackSuperseded(s *subject.Channel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	lost := s.Reads("s", 0, "a", "b", "c")
	kept := s.FetchUpTo("s", 1)
	s.SetClock(s.At(1))
	s.Expire(subject.Message(s.At(2)), subject.Message(s.At(3)), subject.Record("b"), subject.Record("c"))
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", lost)), channel.ErrReceiptAhead)

	s.Publish("x", subject.LongName, "z") // the longest ID has the clock that c had
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", lost)), channel.ErrReceiptSuperseded)
	require.Equal(s.T, s.At(0), s.MarkOf("s"), "a refused receipt doesn't move the mark")
	s.Ack("s", kept)
	s.Ack("s", s.Reads("s", 0, "x", subject.LongName, "z"))
	s.Ack("s", lost) // behind the mark now: a retry
	require.Equal(s.T, s.At(4), s.MarkOf("s"))
}

func ackGone(s *subject.Channel) {
	s.Policy.MaxMessages = 3
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	first, second := s.FetchUpTo("s", 1), s.FetchUpTo("s", 2)
	s.Publish("d") // trims a, whose dedup record stays
	s.Ack("s", first)
	s.Expire(subject.Message(s.At(2)), subject.Record("b"))
	s.Ack("s", second)
	require.Equal(s.T, s.At(2), s.MarkOf("s"))
}
