package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func epochCases() []testCase {
	return []testCase{
		{name: "a mark ahead of the clock doesn't count", run: epochMarkAhead},
		{name: "a life begins after any number of marks of an earlier one", run: epochManyMarks},
		{name: "a life ends with its clock", run: epochWithoutClock},
	}
}

// epochWithoutClock removes the clock alone, as an eviction can do.
func epochWithoutClock(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	b := s.fetchUpTo("s", 1)
	old := s.position().Epoch
	s.expire(clockPart)
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
	s.noSubscriber("s")

	require.Equal(s.t, []channel.Published{{ID: "b", Clock: 1, Begun: true}}, s.publish("b"),
		"a dedup record of the earlier life doesn't count: its message can't be read any more")
	require.NotEqual(s.t, old, s.position().Epoch)
	s.noSubscriber("s")
	s.subscribeFrom("s", earliest)
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", b)), channel.ErrReceiptEpoch)
	s.publish("x", "y", "z")
	s.reads("s", 0, "b", "x", "y", "z")
}

// epochMarkAhead leaves only a mark of the channel's earlier life, as an eviction can do.
func epochMarkAhead(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c", "d")
	s.ack("s", s.fetch("s"))
	s.expire(clockPart, epochPart, subscribersPart)
	s.publish("x", "y")
	s.noSubscriber("s")
	require.Empty(s.t, s.describe().Subscribers)
	s.subscribeFrom("s", earliest)
	s.reads("s", 0, "x", "y")
}

func epochManyMarks(s *subject) {
	for _, begin := range []func(){
		func() { s.publish("a") },
		func() { s.batch("b", "c") },
		func() { s.subscribe("new") },
	} {
		old := names(2000)
		for _, name := range old {
			s.subscribe(name)
		}
		s.expire(clockPart, epochPart)
		begin()
		s.noSubscriber(old[0])
		for _, name := range old {
			require.Zero(s.t, s.life(mark(name)), "no mark of the earlier life is left")
		}
		s.expireAll()
	}
}
