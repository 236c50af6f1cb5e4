package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func subscribeCases() []testCase {
	return []testCase{
		{name: "a clock far ahead of the channel's is refused", clocks: true, run: subscribeAhead},
		{name: "a subscriber or a message may have any name", run: subscribeNames},
		{name: "removed subscribers take no memory", run: subscribeRemoved},
	}
}

func subscribeAhead(s *subject) {
	s.publish("a", "b")
	for _, steps := range []uint64{million, 1 << 52} {
		_, err := s.trySubscribe("s", channel.From{Start: channel.StartAt, Clock: s.at(2).Add(steps)})
		require.ErrorIs(s.t, err, channel.ErrClockAhead, "%d ahead", steps)
	}
	require.Empty(s.t, s.describe().Subscribers, "a refused subscribe makes no subscriber")
}

func subscribeNames(s *subject) {
	names := []string{"0", "a:b", "a.b", "a-b", "A_b", "clock", "subs", "r.s", "m.1", "mid.0", longName}
	for _, name := range names {
		s.subscribe(name)
		s.publish(name)
	}
	for _, p := range s.publish(names...) {
		require.True(s.t, p.Duplicate, p.ID)
	}
	for i, name := range names {
		s.reads(name, 0, names[i:]...)
	}
	require.Len(s.t, s.describe().Subscribers, len(names))
}

func subscribeRemoved(s *subject) {
	s.subscribe("s")
	s.unsubscribe("s")
	require.Zero(s.t, s.life(subscribersPart))
}
