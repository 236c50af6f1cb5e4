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
		{Name: "a publish to a missing channel makes the subscriber in front of it", Run: eachMakes},
		{Name: "a publish to an existing channel makes no subscriber", Run: eachMakesNone},
		{Name: "a new life has nothing of an earlier one", Run: eachAfterEviction},
		{Name: "requests are independent of each other", Run: eachAlone},
		{Name: "a publish and a subscribe make one channel, and the message is read once", Run: eachRaces},
	}
}

// making returns a request to publish messages of these IDs and to make the subscriber "s" with the channel.
func making(s *testChannel, ids ...string) channel.PublishRequest {
	return channel.PublishRequest{Channel: s.Name, Drafts: draftsOf(ids...), Policy: s.Policy, Subscriber: "s"}
}

// makeTwice publishes messages of these IDs, and makes the subscriber "s" with the channel. It does so twice.
func makeTwice(s *testChannel, ids ...string) {
	s.T.Helper()
	for repeat := range 2 {
		results := s.Store.PublishEach(s.Ctx(), []channel.PublishRequest{making(s, ids...)})
		require.Len(s.T, results, 1)
		require.NoError(s.T, results[0].Err)
		for i, p := range results[0].Published {
			require.Equal(s.T, ids[i], p.ID)
			require.Equal(s.T, repeat == 1, p.Duplicate)
		}
	}
}

func eachMakes(s *testChannel) {
	l := s.Listen()
	l.Confirmed()
	makeTwice(s, "a", "b")
	s.Renewed(channelClock, epoch, subscribers, mark("s"), message(1), record("a"), message(2), record("b"))
	s.Outlives(mark("s"), message(1), record("a"), message(2), record("b"), subscribers)
	require.Nil(s.T, l.Published(2).Message)
	b := s.Reads("s", 0, "a", "b")
	require.Zero(s.T, b.Mark)
	require.Equal(s.T, "s", s.Describe().Subscribers[0].Name)
	s.Ack("s", b)
	makeTwice(s, "c")
	s.Reads("s", 0, "c")

	short := s.On("short")
	short.Policy.MaxMessages = 1
	makeTwice(short, "a", "b")
	short.Reads("s", 1, "b")

	_, err := s.On("one").Store.Publish(s.Ctx(), making(s.On("one"), "a"))
	require.NoError(s.T, err)
	s.On("one").Reads("s", 0, "a")
}

// eachMakesNone: a publish doesn't bring back a removed subscriber.
func eachMakesNone(s *testChannel) {
	s.Subscribe("other")
	makeTwice(s, "a")
	s.NoSubscriber("s")
	s.Reads("other", 0, "a")
	s.SubscribeFrom("s", earliest)
	s.Unsubscribe("s")
	makeTwice(s, "b")
	s.NoSubscriber("s")
}

// eachAfterEviction: an earlier life left more marks than one call removes.
func eachAfterEviction(s *testChannel) {
	for _, name := range names(500) {
		s.Subscribe(name)
	}
	s.Subscribe("s")
	s.Publish("a", "b")
	s.Ack("s", s.Fetch("s"))
	s.Expire(channelClock)
	makeTwice(s, "b", "a")
	require.Equal(s.T, []string{"s"}, func() (all []string) {
		for _, sub := range s.Describe().Subscribers {
			all = append(all, sub.Name)
		}
		return all
	}())
	s.Reads("s", 0, "b", "a")
	require.Zero(s.T, s.Life(mark(names(500)[499])))
}

// eachAlone publishes on many channels, on all nodes of a Cluster; one of the requests is refused.
func eachAlone(s *testChannel) {
	later, earlier := ulid.MustNew(2, nil), ulid.MustNew(1, nil)
	var requests []channel.PublishRequest
	for i := range 100 {
		r := making(s.On(fmt.Sprint("ch", i)), "a")
		r.Epoch = later
		requests = append(requests, r)
	}
	for _, r := range s.Store.PublishEach(s.Ctx(), requests) {
		require.NoError(s.T, r.Err)
	}
	requests[40].Epoch = earlier
	for i := range requests {
		requests[i].Drafts = draftsOf("b")
	}
	for i, r := range s.Store.PublishEach(s.Ctx(), requests) {
		at := s.On(requests[i].Channel)
		require.Equal(s.T, later, at.Position().Epoch)
		if i == 40 {
			require.ErrorIs(s.T, r.Err, channel.ErrLaterLife)
			at.Reads("s", 0, "a")
			continue
		}
		require.NoError(s.T, r.Err)
		require.Equal(s.T, []channel.Published{{ID: "b", Clock: 2}}, withoutEpochs(r.Published))
		at.Reads("s", 0, "a", "b")
	}
	require.Empty(s.T, s.Store.PublishEach(s.Ctx(), nil))
}

func eachRaces(s *testChannel) {
	for i := range 50 {
		at := s.On(fmt.Sprint("ch", i))
		var calls errgroup.Group
		calls.Go(func() error {
			return at.Store.PublishEach(at.Ctx(),
				[]channel.PublishRequest{making(at, "a")})[0].Err
		})
		calls.Go(func() error {
			_, err := at.TrySubscribe("s", earliest)
			return err
		})
		require.NoError(s.T, calls.Wait())
		at.Reads("s", 0, "a")
	}
}
