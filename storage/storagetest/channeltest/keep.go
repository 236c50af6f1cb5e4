package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func keepCases() []testCase {
	return []testCase{
		{name: "messages beyond the limit take no memory", clocks: true, run: keepMemory},
		{name: "a lower limit holds at once", clocks: true, run: keepLowered},
		{name: "a higher limit restores nothing", clocks: true, run: keepRaised},
		{name: "a receipt is refused if another message got its clock and was trimmed since", clocks: true, run: keepAckLost},
	}
}

func keepMemory(s *subject) {
	s.policy.MaxMessages = 4
	ids := numbered(20)
	s.subscribe("s")
	s.publish(ids[:10]...)
	s.reads("s", 6, ids[6:10]...)
	s.batch(ids[10:]...)
	s.reads("s", 16, ids[16:]...)
	for n := range ids {
		require.Equal(s.t, n >= 16, s.life(message(s.at(n+1))) > 0, "the message of %s exists", ids[n])
	}
}

func keepLowered(s *subject) {
	ids := numbered(10)
	s.subscribe("s")
	s.batch(ids...)
	s.policy.MaxMessages = 5
	s.reads("s", 5, ids[5:]...)
	require.Equal(s.t, uint64(5), s.describe().Live)
	s.subscribeFrom("early", earliest)
	s.reads("early", 0, ids[5:]...)
	s.publish("new")
	s.reads("s", 6, append(ids[6:], "new")...)
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

// keepAckLost simulates a fail-over that loses the channel's last two publishes.
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
	s.expire(record("m1"), record("m2")) // the lives of the messages that replaced them have ended
	refused()
	s.policy.MaxMessages = 100
	s.publish("b", "c") // the publishers repeat what was lost
	require.ErrorIs(s.t, s.tryAck(lost), channel.ErrReceiptSuperseded)
}
