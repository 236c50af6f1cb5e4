package storagetest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func unsubscribeCases() []testCase {
	return []testCase{
		{
			name: "a removed subscriber is gone", ring: true, run: unsubscribeGone,
			notice: "a removed subscriber still gets messages, or is still listed",
		},
		{
			name: "removing one that isn't there succeeds", run: unsubscribeNobody,
			notice: "a retried unsubscribe fails, or makes a channel",
		},
		{
			name: "a removed subscriber may come back", ring: true, run: unsubscribeAndBack,
			notice: "a subscriber that was removed and made again goes on at its old place",
		},
	}
}

func unsubscribeGone(s *subject) {
	s.subscribe("s")
	s.subscribe("stays")
	s.publish("a", "b")
	b := s.reads("s", 0, "a", "b")
	s.unsubscribe("s")
	_, err := s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", b)), channel.ErrNoSubscriber)
	d := s.describe()
	require.Len(s.t, d.Subscribers, 1)
	require.Equal(s.t, "stays", d.Subscribers[0].Name)
	s.reads("stays", 0, "a", "b")
}

func unsubscribeNobody(s *subject) {
	s.unsubscribe("s")
	_, err := s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "an unsubscribe makes no channel")
	s.subscribe("s")
	s.unsubscribe("s")
	s.unsubscribe("s")
	s.unsubscribe("nobody")
	require.Zero(s.t, s.life(subscribersPart), "the list of no subscribers takes no memory")
	require.Empty(s.t, s.describe().Subscribers)
}

func unsubscribeAndBack(s *subject) {
	s.subscribe("s")
	s.publish("a")
	s.unsubscribe("s")
	s.publish("b")
	require.Equal(s.t, s.at(2), s.subscribe("s").Clock)
	s.publish("c")
	s.reads("s", 0, "c")
}
