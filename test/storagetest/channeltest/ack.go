package channeltest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/receipt"
)

func ackCases() []testCase {
	return []testCase{
		{Name: "a receipt far ahead of the clock is refused", Clocks: true, Run: ackAhead},
		{Name: "a receipt of a message that another has replaced is refused", Clocks: true, Run: ackSuperseded},
		{Name: "a receipt of a write that was lost is refused, although its ID has its clock again", Clocks: true,
			Run: ackLostWrite},
		{Name: "a receipt of a lost write is refused, although what has its clock was trimmed", Clocks: true,
			Run: ackLostWriteTrimmed},
		{Name: "a receipt for expired messages is refused once others have their clocks", Clocks: true,
			Run: ackLostExpired},
		{Name: "a receipt without a write is for a message ID", Run: ackWithoutWrite},
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
	s.loseAfter(1, "b", "c")
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", lost)), channel.ErrReceiptAhead)

	s.Publish("x", longName, "z") // the longest ID gets the clock that c had
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", lost)), channel.ErrReceiptSuperseded)
	require.Equal(s.T, s.At(0), s.MarkOf("s"), "a refused receipt doesn't move the mark")
	s.Ack("s", kept)
	s.Ack("s", s.Reads("s", 0, "x", longName, "z"))
	s.Ack("s", lost) // behind the mark now: a retry
	require.Equal(s.T, s.At(4), s.MarkOf("s"))
}

// refuses acknowledges a receipt in all ways, and expects that each refuses it.
func (s *testChannel) refuses(r receipt.Receipt) {
	s.T.Helper()
	before := s.MarkOf(r.Subscriber)
	require.ErrorIs(s.T, s.TryAck(r), channel.ErrReceiptSuperseded)
	_, err := s.TryNext(r, 10)
	require.ErrorIs(s.T, err, channel.ErrReceiptSuperseded)
	require.ErrorIs(s.T, acking(s, r, 0).Err, channel.ErrReceiptSuperseded)
	require.Equal(s.T, before, s.MarkOf(r.Subscriber), "a refused receipt doesn't move the mark")
}

// ackLostWrite has a publisher that repeats a lost message, which gets its clock again, after one of another publisher.
func ackLostWrite(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	lost := s.ReceiptFor("s", s.Fetch("s"))
	s.loseAfter(1, "b", "c")
	s.Publish("x", "c")
	s.refuses(lost)
	s.Ack("s", s.Reads("s", 0, "a", "x", "c"))
	require.NoError(s.T, s.TryAck(lost), "behind the mark: a retry")
}

func ackLostWriteTrimmed(s *testChannel) {
	s.Policy.MaxMessages = 2
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	lost := s.ReceiptFor("s", s.Fetch("s"))
	s.loseAfter(1, "b", "c")
	s.Publish("x", "c")
	again := s.ReceiptFor("s", s.Fetch("s"))
	s.Publish("d", "e")                     // trims x and c, whose dedup records stay
	require.NoError(s.T, s.TryAck(again))   // it was read
	s.SetLife(ttl-time.Second, record("c")) // as if it had been published at another time
	s.SubscribeFrom("other", s.fromClock(0))
	lost.Subscriber = "other"
	s.refuses(lost)
	s.Reads("other", 3, "d", "e")
}

func ackLostExpired(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	s.ExpireMessages(1, 3)
	expired := s.Fetch("s")
	require.Equal(s.T, uint64(3), expired.Expired)
	s.loseAfter(1, "b", "c")
	s.Publish("x", "y")
	s.refuses(s.ReceiptFor("s", expired))
	s.Reads("s", 1, "x", "y")
}

// ackWithoutWrite has a receipt for a message as the predecessor stores it.
func ackWithoutWrite(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	r := s.ReceiptFor("s", s.Fetch("s"))
	r.Write, r.PublishedAt = receipt.Write{}, time.Time{}
	other := r
	other.MessageID = "x"
	s.refuses(other)
	require.NoError(s.T, s.TryAck(r))
}

func ackGone(s *testChannel) {
	s.Policy.MaxMessages = 3
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	first, second := s.FetchUpTo("s", 1), s.FetchUpTo("s", 2)
	s.Publish("d") // trims a, whose dedup record stays
	s.Ack("s", first)
	s.Expire(message(s.At(2)), record("b"))
	s.refuses(s.ReceiptFor("s", second)) // it can't have expired
	require.NoError(s.T, s.TryAck(aged(s.ReceiptFor("s", second))))
	require.Equal(s.T, s.At(2), s.MarkOf("s"))
}
