package channeltest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func subscribeCases() []testCase {
	return []testCase{
		{
			name: "the first subscriber makes its channel", run: subscribeFirst,
			notice: "subscribing before the first publish fails, or misses that publish",
		},
		{
			name: "latest starts after what was published", ring: true, run: subscribeLatest,
			notice: "a new subscriber gets old messages, or misses the next one",
		},
		{
			name: "earliest starts before the oldest message alive", ring: true, run: subscribeEarliest,
			notice: "a new subscriber from earliest misses live messages, or is told of expired ones",
		},
		{
			name: "a clock starts after that clock", ring: true, run: subscribeAt,
			notice: "a subscriber that goes on from a known clock gets that message again, or misses one",
		},
		{
			name: "a clock ahead of the channel's is refused", ring: true, run: subscribeAhead,
			notice: "a subscriber misses messages that are published later",
		},
		{
			name: "a refused subscribe makes no channel", run: subscribeAheadOfNothing,
			notice: "a failed subscribe leaves a channel behind",
		},
		{
			name: "a mark that exists isn't moved", ring: true, run: subscribeExisting,
			notice: "a client that subscribes again when it starts loses its place",
		},
		{
			name: "a subscriber whose mark has expired is made anew", ring: true, run: subscribeExpired,
			notice: "a subscriber that was away too long can't come back, or gets no error that tells it",
		},
		{
			name: "a subscriber's name may be any name", run: subscribeNames,
			notice: "subscribers with long or unusual names share a mark or are lost",
		},
	}
}

func subscribeFirst(s *subject) {
	sub := s.subscribe("s")
	require.Equal(s.t, clock.Clock(0), sub.Clock)
	require.Equal(s.t, sub.Position, s.position())
	s.reads("s", 0)
	s.publish("a")
	s.reads("s", 0, "a")

	early := s.on("early")
	require.Equal(s.t, clock.Clock(0), early.subscribeFrom("s", channel.From{Start: channel.StartEarliest}).Clock)
	zero := s.on("zero")
	require.Equal(s.t, clock.Clock(0), zero.subscribeFrom("s", channel.From{Start: channel.StartAt}).Clock)
}

func subscribeLatest(s *subject) {
	for n, id := range numbered(5) {
		sub := s.subscribe("after" + id)
		require.Equal(s.t, s.at(n), sub.Clock)
		s.publish(id)
	}
	for n, id := range numbered(5) {
		s.reads("after"+id, 0, numbered(5)[n:]...)
	}
}

func subscribeEarliest(s *subject) {
	ids := numbered(40)
	early := channel.From{Start: channel.StartEarliest}
	s.batch(ids...)
	expired := 0
	for i, n := range []int{0, 1, 16, 17, 38, 39} {
		s.expireMessages(expired+1, n)
		expired = n
		name := ids[i]
		require.Equal(s.t, s.at(n), s.subscribeFrom(name, early).Clock)
		s.reads(name, 0, ids[n:]...)
	}
	s.expireMessages(40, 40)
	require.Equal(s.t, s.at(40), s.subscribeFrom("nothing", early).Clock, "where nothing is alive it is the latest")
	s.reads("nothing", 0)
}

func subscribeAt(s *subject) {
	ids := numbered(5)
	s.publish(ids...)
	for n := range 6 {
		name := numbered(6)[n]
		require.Equal(s.t, s.at(n), s.subscribeFrom(name, channel.From{Start: channel.StartAt, Clock: s.at(n)}).Clock)
		s.reads(name, 0, ids[n:]...)
	}
	s.expireMessages(1, 3)
	s.subscribeFrom("expired", channel.From{Start: channel.StartAt, Clock: s.at(1)})
	s.reads("expired", 2, "m4", "m5")
}

func subscribeAhead(s *subject) {
	s.publish("a", "b")
	for _, steps := range []uint64{1, 2, million, 1 << 52} {
		_, err := s.trySubscribe("s", channel.From{Start: channel.StartAt, Clock: s.at(2).Add(steps)})
		require.ErrorIs(s.t, err, channel.ErrClockAhead, "%d ahead", steps)
	}
	require.Empty(s.t, s.describe().Subscribers, "a refused subscribe makes no subscriber")
	s.subscribeFrom("s", channel.From{Start: channel.StartAt, Clock: s.at(2)})

	sub, err := s.trySubscribe("s", channel.From{Start: channel.StartAt, Clock: s.at(3)})
	require.NoError(s.t, err, "where the subscriber exists, from means nothing")
	require.False(s.t, sub.Created)
}

func subscribeAheadOfNothing(s *subject) {
	_, err := s.trySubscribe("s", channel.From{Start: channel.StartAt, Clock: 1})
	require.ErrorIs(s.t, err, channel.ErrClockAhead)
	_, err = s.readPosition()
	require.ErrorIs(s.t, err, channel.ErrNoChannel)
}

func subscribeExisting(s *subject) {
	first := s.subscribe("s")
	s.publish("a", "b", "c")
	s.ack("s", s.fetchUpTo("s", 1))
	for _, from := range []channel.From{
		{Start: channel.StartLatest},
		{Start: channel.StartEarliest},
		{Start: channel.StartAt, Clock: s.at(2)},
	} {
		again, err := s.trySubscribe("s", from)
		require.NoError(s.t, err)
		require.False(s.t, again.Created, "it was there already")
		require.Equal(s.t, channel.Position{Epoch: first.Epoch, Clock: s.at(1)}, again.Position, "the mark")
	}
	s.reads("s", 0, "b", "c")
}

func subscribeExpired(s *subject) {
	s.subscribe("s")
	s.publish("a")
	b := s.reads("s", 0, "a")
	s.expire(mark("s"))
	_, err := s.store.Fetch(s.ctx(), s.request("s", 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
	require.ErrorIs(s.t, s.tryAck(s.receiptFor("s", b)), channel.ErrNoSubscriber)
	require.Equal(s.t, s.at(1), s.subscribe("s").Clock)
	s.publish("b")
	s.reads("s", 0, "b")
}

func subscribeNames(s *subject) {
	names := []string{"0", "a:b", "a.b", "a-b", "A_b", "clock", "subs", "m.1", longName}
	s.publish("before")
	for i, name := range names {
		s.subscribe(name)
		s.publish(numbered(len(names))[i])
	}
	for i, name := range names {
		s.reads(name, 0, numbered(len(names))[i:]...)
	}
	require.Len(s.t, s.describe().Subscribers, len(names))
}

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
