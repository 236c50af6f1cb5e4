package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func keepCases() []testCase {
	return []testCase{
		{Name: "messages beyond the limit take no memory", Clocks: true, Run: keepMemory},
		{Name: "a lower limit holds at once", Clocks: true, Run: keepLowered},
		{Name: "a higher limit restores nothing", Clocks: true, Run: keepRaised},
		{Name: "a receipt is refused if another message got its clock and was trimmed since", Clocks: true,
			Run: keepAckLost},
	}
}

func keepMemory(s *testChannel) {
	s.Policy.MaxMessages = 4
	ids := numbered(20)
	s.Subscribe("s")
	s.Publish(ids[:10]...)
	s.Reads("s", 6, ids[6:10]...)
	s.Batch(ids[10:]...)
	s.Reads("s", 16, ids[16:]...)
	for n := range ids {
		require.Equal(s.T, n >= 16, s.Life(message(s.At(n+1))) > 0, "the message of %s exists", ids[n])
	}
}

func keepLowered(s *testChannel) {
	ids := numbered(10)
	s.Subscribe("s")
	s.Batch(ids...)
	s.Policy.MaxMessages = 5
	s.Reads("s", 5, ids[5:]...)
	require.Equal(s.T, uint64(5), s.Describe().Live)
	s.SubscribeFrom("early", earliest)
	s.Reads("early", 0, ids[5:]...)
	s.Publish("new")
	s.Reads("s", 6, append(ids[6:], "new")...)
}

func keepRaised(s *testChannel) {
	s.Policy.MaxMessages = 2
	ids := numbered(6)
	s.Subscribe("s")
	s.Batch(ids...)
	s.Policy.MaxMessages = 5
	s.Reads("s", 4, ids[4:]...)
	s.Publish("a", "b", "c")
	s.Reads("s", 4, "m5", "m6", "a", "b", "c")
	s.Publish("d")
	s.Reads("s", 5, "m6", "a", "b", "c", "d")
}

// keepAckLost simulates a fail-over that loses the channel's last two publishes.
func keepAckLost(s *testChannel) {
	s.Policy.MaxMessages = 3
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	lost := s.ReceiptFor("s", s.Reads("s", 0, "a", "b", "c"))
	s.loseAfter(1, "b", "c")
	ids := numbered(10)
	s.Publish(ids...)
	refused := func() {
		s.T.Helper()
		s.refuses(lost)
		s.Reads("s", 8, ids[7:]...)
	}
	refused()
	s.Expire(record("m1"), record("m2")) // the lives of the messages that replaced them have ended
	refused()
	s.Policy.MaxMessages = 100
	s.Publish("b", "c") // the publishers repeat the lost messages
	require.ErrorIs(s.T, s.TryAck(lost), channel.ErrReceiptSuperseded)
}
