package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func epochCases() []testCase {
	return []testCase{
		{name: "a mark ahead of the clock is none", run: epochMarkAhead},
		{name: "a life begins however many marks are left of an earlier one", run: epochManyMarks},
		{name: "a life ends with its clock", run: epochWithoutClock},
	}
}

// epochWithoutClock does what an evicting maxmemory-policy can do.
func epochWithoutClock(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c")
	b := s.fetchUpTo("s", 1)
	old := s.position().Epoch
	s.expire(clockPart)
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
	_, err = s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)

	require.Equal(s.t, []channel.Published{{ID: "b", Clock: 1}}, s.publish("b"),
		"a dedup record of the earlier life doesn't count: its message can't be read any more")
	require.NotEqual(s.t, old, s.position().Epoch)
	_, err = s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber, "a mark of the earlier life doesn't count")
	s.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", b)), channel.ErrReceiptEpoch)
	s.publish("x", "y", "z")
	s.reads("s", 0, "b", "x", "y", "z")
}

// epochMarkAhead lets a mark alone outlive its channel's life, which nothing but an eviction does.
func epochMarkAhead(s *subject) {
	s.subscribe("s")
	s.publish("a", "b", "c", "d")
	s.ack("s", s.fetch("s"))
	s.expire(clockPart, epochPart, subscribersPart)
	s.publish("x", "y")
	_, err := s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
	require.Empty(s.t, s.describe().Subscribers)
	s.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
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
		_, err := s.store.Fetch(s.ctx(), s.request(old[0], 1))
		require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
		for _, name := range old {
			require.Zero(s.t, s.life(mark(name)), "no mark of the earlier life is left")
		}
		s.expireAll()
	}
}
