package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func subscribeCases() []testCase {
	return []testCase{
		{Name: "a clock far ahead of the channel's is refused", Clocks: true, Run: subscribeAhead},
		{Name: "a subscriber or a message may have any name", Run: subscribeNames},
		{Name: "removed subscribers take no memory", Run: subscribeRemoved},
		{Name: "a channel has as many subscribers as it may", Run: subscribeMost},
		{Name: "what may not be made is not", Run: subscribeExisting},
	}
}

func subscribeAhead(s *testChannel) {
	s.Publish("a", "b")
	for _, steps := range []uint64{million, 1 << 52} {
		_, err := s.TrySubscribe("s", channel.From{Start: channel.StartAt, Clock: s.At(2).Add(steps)})
		require.ErrorIs(s.T, err, channel.ErrClockAhead, "%d ahead", steps)
	}
	require.Empty(s.T, s.Describe().Subscribers, "a refused subscribe makes no subscriber")
}

func subscribeNames(s *testChannel) {
	names := []string{"0", "a:b", "a.b", "a-b", "A_b", "clock", "subs", "r.s", "m.1", "mid.0", longName}
	for _, name := range names {
		s.Subscribe(name)
		s.Publish(name)
	}
	for _, p := range s.Publish(names...) {
		require.True(s.T, p.Duplicate, p.ID)
	}
	for i, name := range names {
		s.Reads(name, 0, names[i:]...)
	}
	require.Len(s.T, s.Describe().Subscribers, len(names))
}

func subscribeMost(s *testChannel) {
	s.Subscribe("a")
	s.Subscribe("b")
	s.Policy.MaxSubscribers = 2
	latest := channel.From{Start: channel.StartLatest}
	_, err := s.TrySubscribe("c", latest)
	require.ErrorIs(s.T, err, channel.ErrTooManySubscribers)
	s.NoSubscriber("c")
	again, err := s.TrySubscribe("a", latest)
	require.NoError(s.T, err)
	require.False(s.T, again.Created)

	s.Expire(mark("a")) // its name is still listed
	s.Subscribe("c")
	_, err = s.TrySubscribe("d", latest)
	require.ErrorIs(s.T, err, channel.ErrTooManySubscribers)
	s.ExpireAll()
	require.True(s.T, s.Subscribe("d").Begun, "the names of an earlier life don't count")
}

func subscribeExisting(s *testChannel) {
	publish := channel.PublishRequest{Channel: s.Name, Drafts: draftsOf("m"), Policy: s.Policy, Existing: true}
	subscribe := channel.SubscribeRequest{Channel: s.Name, Subscriber: "s", Policy: s.Policy, ExistingChannel: true}
	_, err := s.Store.Publish(s.Ctx(), publish)
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	_, err = s.Store.Subscribe(s.Ctx(), subscribe)
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	_, err = s.Store.Describe(s.Ctx(), channel.DescribeRequest{Channel: s.Name, Page: channel.Page{Limit: 1},
		Policy: s.Policy})
	require.ErrorIs(s.T, err, channel.ErrNoChannel, "a refused call makes nothing")

	require.True(s.T, s.Publish("first")[0].Begun)
	published, err := s.Store.Publish(s.Ctx(), publish)
	require.NoError(s.T, err)
	require.False(s.T, published[0].Begun)
	subscribe.Existing = true
	_, err = s.Store.Subscribe(s.Ctx(), subscribe)
	require.ErrorIs(s.T, err, channel.ErrNoSubscriber)
	s.NoSubscriber("s")
	subscribe.Existing = false
	sub, err := s.Store.Subscribe(s.Ctx(), subscribe)
	require.NoError(s.T, err)
	require.True(s.T, sub.Created)
	require.False(s.T, sub.Begun)
}

func subscribeRemoved(s *testChannel) {
	s.Subscribe("s")
	s.Unsubscribe("s")
	require.Zero(s.T, s.Life(subscribers))
}
