package channeltest

import (
	"fmt"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/channel"
)

func eachCases() []testCase {
	return []testCase{
		{name: "a publish to a missing channel makes the subscriber in front of it", run: eachMakes},
		{name: "a publish to an existing channel makes no subscriber", run: eachMakesNone},
		{name: "a new life has nothing of an earlier one", run: eachAfterEviction},
		{name: "requests are independent of each other", run: eachAlone},
		{name: "a publish and a subscribe make one channel, and the message is read once", run: eachRaces},
	}
}

// making returns a request to publish messages of these IDs and to make the subscriber "s" with the channel.
func (s *subject) making(ids ...string) channel.PublishRequest {
	return channel.PublishRequest{Channel: s.channel, Drafts: draftsOf(ids...), Policy: s.policy, Subscriber: "s"}
}

// make publishes messages of these IDs, and makes the subscriber "s" with the channel. It does so twice.
func (s *subject) make(ids ...string) {
	s.t.Helper()
	for repeat := range 2 {
		results := s.store.PublishEach(s.ctx(), []channel.PublishRequest{s.making(ids...)})
		require.Len(s.t, results, 1)
		require.NoError(s.t, results[0].Err)
		for i, p := range results[0].Published {
			require.Equal(s.t, ids[i], p.ID)
			require.Equal(s.t, repeat == 1, p.Duplicate)
		}
	}
}

func eachMakes(s *subject) {
	l := s.listen()
	l.confirmed()
	s.make("a", "b")
	s.renewed(clockPart, epochPart, subscribersPart, mark("s"), message(1), record("a"), message(2), record("b"))
	s.outlives(mark("s"), message(1), record("a"), message(2), record("b"), subscribersPart)
	l.small(1, "a")
	l.small(2, "b")
	b := s.reads("s", 0, "a", "b")
	require.Zero(s.t, b.Mark)
	require.Equal(s.t, "s", s.describe().Subscribers[0].Name)
	s.ack("s", b)
	s.make("c")
	s.reads("s", 0, "c")

	short := s.on("short")
	short.policy.MaxMessages = 1
	short.make("a", "b")
	short.reads("s", 1, "b")

	_, err := s.on("one").store.Publish(s.ctx(), s.on("one").making("a"))
	require.NoError(s.t, err)
	s.on("one").reads("s", 0, "a")
}

// eachMakesNone doesn't bring back a subscriber that was removed.
func eachMakesNone(s *subject) {
	s.subscribe("other")
	s.make("a")
	s.noSubscriber("s")
	s.reads("other", 0, "a")
	s.subscribeFrom("s", earliest)
	s.unsubscribe("s")
	s.make("b")
	s.noSubscriber("s")
}

// eachAfterEviction has more marks of an earlier life than one call removes.
func eachAfterEviction(s *subject) {
	for _, name := range names(500) {
		s.subscribe(name)
	}
	s.subscribe("s")
	s.publish("a", "b")
	s.ack("s", s.fetch("s"))
	s.expire(clockPart)
	s.make("b", "a")
	require.Equal(s.t, []string{"s"}, func() (all []string) {
		for _, sub := range s.describe().Subscribers {
			all = append(all, sub.Name)
		}
		return all
	}())
	s.reads("s", 0, "b", "a")
	require.Zero(s.t, s.life(mark(names(500)[499])))
}

// eachAlone has requests for many channels, on all nodes of a Cluster, and one that is refused.
func eachAlone(s *subject) {
	later, earlier := ulid.MustNew(2, nil), ulid.MustNew(1, nil)
	var requests []channel.PublishRequest
	for i := range 100 {
		r := s.on(fmt.Sprint("ch", i)).making("a")
		r.Epoch = later
		requests = append(requests, r)
	}
	for _, r := range s.store.PublishEach(s.ctx(), requests) {
		require.NoError(s.t, r.Err)
	}
	requests[40].Epoch = earlier
	for i := range requests {
		requests[i].Drafts = draftsOf("b")
	}
	for i, r := range s.store.PublishEach(s.ctx(), requests) {
		at := s.on(requests[i].Channel)
		require.Equal(s.t, later, at.position().Epoch)
		if i == 40 {
			require.ErrorIs(s.t, r.Err, channel.ErrLaterLife)
			at.reads("s", 0, "a")
			continue
		}
		require.NoError(s.t, r.Err)
		require.Equal(s.t, []channel.Published{{ID: "b", Clock: 2}}, r.Published)
		at.reads("s", 0, "a", "b")
	}
	require.Empty(s.t, s.store.PublishEach(s.ctx(), nil))
}

func eachRaces(s *subject) {
	for i := range 50 {
		at := s.on(fmt.Sprint("ch", i))
		var calls errgroup.Group
		calls.Go(func() error { return at.store.PublishEach(at.ctx(), []channel.PublishRequest{at.making("a")})[0].Err })
		calls.Go(func() error {
			_, err := at.trySubscribe("s", earliest)
			return err
		})
		require.NoError(s.t, calls.Wait())
		at.reads("s", 0, "a")
	}
}
