package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func epochCases() []testCase {
	return []testCase{
		{Name: "a mark ahead of the clock doesn't count", Run: epochMarkAhead},
		{Name: "a life begins after any number of marks of an earlier one", Run: epochManyMarks},
		{Name: "a life ends with its clock", Run: epochWithoutClock},
	}
}

// epochWithoutClock removes the clock alone, as an eviction can do.
func epochWithoutClock(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	b := s.FetchUpTo("s", 1)
	old := s.Position().Epoch
	s.Expire(channelClock)
	_, err := s.TryPosition()
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	s.NoSubscriber("s")

	require.Equal(s.T, []channel.Published{{ID: "b", Clock: 1, Begun: true}}, s.Publish("b"),
		"a dedup record of the earlier life doesn't count: its message can't be read any more")
	require.NotEqual(s.T, old, s.Position().Epoch)
	s.NoSubscriber("s")
	s.SubscribeFrom("s", earliest)
	require.ErrorIs(s.T, s.TryAck(s.ReceiptFor("s", b)), channel.ErrReceiptEpoch)
	for i, id := range []string{"c", "a"} { // the clock of c's record is ahead, and a's has become b's
		require.Equal(s.T, []channel.Published{{ID: id, Clock: clock.Clock(2 + i)}}, s.Publish(id))
		require.True(s.T, s.Publish(id)[0].Duplicate)
	}
	s.Publish("x", "y", "z")
	s.Reads("s", 0, "b", "c", "a", "x", "y", "z")
}

// epochMarkAhead leaves only a mark of the channel's earlier life, as an eviction can do.
func epochMarkAhead(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d")
	s.Ack("s", s.Fetch("s"))
	s.Expire(channelClock, epoch, subscribers)
	s.Publish("x", "y")
	s.NoSubscriber("s")
	require.Empty(s.T, s.Describe().Subscribers)
	s.SubscribeFrom("s", earliest)
	s.Reads("s", 0, "x", "y")
}

func epochManyMarks(s *testChannel) {
	for _, begin := range []func(){
		func() { s.Publish("a") },
		func() { s.Batch("b", "c") },
		func() { s.Subscribe("new") },
	} {
		old := names(2000)
		for _, name := range old {
			s.Subscribe(name)
		}
		s.Expire(channelClock, epoch)
		begin()
		s.NoSubscriber(old[0])
		for _, name := range old {
			require.Zero(s.T, s.Life(mark(name)), "no mark of the earlier life is left")
		}
		s.ExpireAll()
	}
}
