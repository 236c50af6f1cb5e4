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
		{name: "a channel has as many subscribers as it may", run: subscribeMost},
		{name: "what may not be made is not", run: subscribeExisting},
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

func subscribeMost(s *subject) {
	s.subscribe("a")
	s.subscribe("b")
	s.policy.MaxSubscribers = 2
	latest := channel.From{Start: channel.StartLatest}
	_, err := s.trySubscribe("c", latest)
	require.ErrorIs(s.t, err, channel.ErrTooManySubscribers)
	s.noSubscriber("c")
	again, err := s.trySubscribe("a", latest)
	require.NoError(s.t, err)
	require.False(s.t, again.Created)

	s.expire(mark("a")) // its name is still listed
	s.subscribe("c")
	_, err = s.trySubscribe("d", latest)
	require.ErrorIs(s.t, err, channel.ErrTooManySubscribers)
	s.expireAll()
	require.True(s.t, s.subscribe("d").Begun, "the names of an earlier life don't count")
}

func subscribeExisting(s *subject) {
	publish := channel.PublishRequest{Channel: s.channel, Drafts: draftsOf("m"), Policy: s.policy, Existing: true}
	subscribe := channel.SubscribeRequest{Channel: s.channel, Subscriber: "s", Policy: s.policy, ExistingChannel: true}
	_, err := s.store.Publish(s.ctx(), publish)
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
	_, err = s.store.Subscribe(s.ctx(), subscribe)
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
	_, err = s.store.Describe(s.ctx(), channel.DescribeRequest{Channel: s.channel, Page: channel.Page{Limit: 1}, Policy: s.policy})
	require.ErrorIs(s.t, err, channel.ErrNoChannel, "a refused call makes nothing")

	require.True(s.t, s.publish("first")[0].Begun)
	published, err := s.store.Publish(s.ctx(), publish)
	require.NoError(s.t, err)
	require.False(s.t, published[0].Begun)
	subscribe.Existing = true
	_, err = s.store.Subscribe(s.ctx(), subscribe)
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
	s.noSubscriber("s")
	subscribe.Existing = false
	sub, err := s.store.Subscribe(s.ctx(), subscribe)
	require.NoError(s.t, err)
	require.True(s.t, sub.Created)
	require.False(s.t, sub.Begun)
}

func subscribeRemoved(s *subject) {
	s.subscribe("s")
	s.unsubscribe("s")
	require.Zero(s.t, s.life(subscribersPart))
}
