package channeltest

import (
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func producerCases() []testCase {
	return []testCase{
		{Name: "publishes of a producer are accepted once and in order", Clocks: true, Run: producersInOrder},
		{Name: "an epoch of a producer fences the earlier ones", Run: producersFenced},
		{Name: "a batch of a producer is one publish", Run: producersBatch},
		{Name: "a refused first publish makes no channel", Run: producersMakeNothing},
		{Name: "producers are of one life", Run: producersOfLife},
		{Name: "producers are known as long as their channel lives", Run: producersLive},
		{Name: "a channel has a limited number of producers", Run: producersLimited},
		{Name: "the producer that closed a channel may repeat it", Clocks: true, Run: producersClose},
		{Name: "producers share calls", Run: producersTogether},
		{Name: "orders increase, byte by byte", Run: ordersIncrease},
		{Name: "numbers of producers are exact up to the largest", Run: producersLargest},
	}
}

// produce publishes messages of these IDs as one publish of a producer.
func (s *testChannel) produce(by channel.Producer, ids ...string) ([]channel.Published, error) {
	return s.Store.Publish(s.Ctx(), channel.PublishRequest{Channel: s.Name, Policy: s.Policy, Drafts: draftsOf(ids...),
		Producer: &by})
}

// produces requires that a publish is accepted, and is a repeat or not.
func (s *testChannel) produces(by channel.Producer, repeat bool, ids ...string) []channel.Published {
	s.T.Helper()
	published, err := s.produce(by, ids...)
	require.NoError(s.T, err)
	for _, p := range published {
		require.Equal(s.T, repeat, p.Duplicate)
	}
	return published
}

// refusesOf requires that a publish of a producer is refused, and returns why.
func (s *testChannel) refusesOf(by channel.Producer, want error, ids ...string) channel.RefusedError {
	s.T.Helper()
	before := s.Store.Positions(s.Ctx(), []string{s.Name})[0]
	_, err := s.produce(by, ids...)
	require.ErrorIs(s.T, err, want)
	var refused *channel.RefusedError
	require.ErrorAs(s.T, err, &refused)
	require.Equal(s.T, before, s.Store.Positions(s.Ctx(), []string{s.Name})[0], "nothing was published")
	return *refused
}

func producersInOrder(s *testChannel) {
	at := func(sequence int64) channel.Producer { return channel.Producer{ID: "p", Sequence: sequence} }
	s.refusesOf(at(1), channel.ErrProducerGap, "b")
	for i, id := range []string{"a", "b", "c"} {
		require.Equal(s.T, s.At(i+1), s.produces(at(int64(i)), false, id)[0].Clock)
	}
	for i, id := range []string{"a", "b", "c"} {
		again := s.produces(at(int64(i)), true, id)[0]
		require.Equal(s.T, s.At(i+1), again.Clock, "the clock of the first time")
		require.EqualValues(s.T, 2, again.Sequence, "the last one that was accepted")
	}
	require.EqualValues(s.T, 3, s.refusesOf(at(4), channel.ErrProducerGap, "e").Expected)
	s.produces(channel.Producer{ID: "other"}, false, "o")
	s.produces(at(3), false, "d")
	s.Policy.MaxMessages = 1
	s.Publish("x")
	require.Equal(s.T, s.At(1), s.produces(at(0), true, "a")[0].Clock, "its message is gone")
}

func producersFenced(s *testChannel) {
	s.produces(channel.Producer{ID: "p"}, false, "a")
	require.EqualValues(s.T, 0, s.refusesOf(channel.Producer{ID: "p", Epoch: 2, Sequence: 1}, channel.ErrProducerStart, "x").Epoch)
	s.produces(channel.Producer{ID: "p", Epoch: 2}, false, "b")
	require.EqualValues(s.T, 2, s.refusesOf(channel.Producer{ID: "p", Sequence: 1}, channel.ErrFenced, "c").Epoch)
	s.produces(channel.Producer{ID: "p", Epoch: 2, Sequence: 1}, false, "c")
}

func producersBatch(s *testChannel) {
	s.produces(channel.Producer{ID: "p"}, false, "a", "b", "c")
	s.produces(channel.Producer{ID: "p"}, true, "a", "b", "c")
	s.refusesOf(channel.Producer{ID: "p", Sequence: 2}, channel.ErrProducerGap, "d", "e")
	require.EqualValues(s.T, 5, s.produces(channel.Producer{ID: "p", Sequence: 1}, false, "d", "e")[1].Clock)
}

func producersMakeNothing(s *testChannel) {
	_, err := s.produce(channel.Producer{ID: "p", Sequence: 7}, "a")
	require.ErrorIs(s.T, err, channel.ErrProducerGap)
	_, err = s.TryPosition()
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
	_, err = s.Store.Publish(s.Ctx(), channel.PublishRequest{Channel: s.Name, Policy: s.Policy, Drafts: draftsOf("a"),
		Subscriber: "s", Producer: &channel.Producer{ID: "p", Sequence: 7}})
	require.ErrorIs(s.T, err, channel.ErrProducerGap)
	for _, part := range []Part{channelClock, epoch, subscribers, mark("s"), producers} {
		require.Zero(s.T, s.Life(part), part)
	}
}

func producersOfLife(s *testChannel) {
	s.produces(channel.Producer{ID: "p", Epoch: 3}, false, "a")
	s.Delete()
	s.produces(channel.Producer{ID: "p"}, false, "b")
	s.ExpireAll()
	s.produces(channel.Producer{ID: "p"}, false, "c")
}

func producersLive(s *testChannel) {
	s.produces(channel.Producer{ID: "p"}, false, "a")
	s.Subscribe("s")
	s.produces(channel.Producer{ID: "p", Sequence: 1}, false, "b")
	renewing := map[string]func(){
		"another publish":  func() { s.Publish("c") },
		"a new subscriber": func() { s.Subscribe("another") },
		"a fetch":          func() { s.Fetch("s") },
		"an ack":           func() { s.Ack("s", s.Fetch("s")) },
	}
	for name, renew := range renewing {
		s.SetLife(20*time.Second, channelClock, epoch, subscribers, mark("s"), producers)
		renew()
		require.Greater(s.T, s.Life(channelClock), time.Minute, name)
		require.GreaterOrEqual(s.T, s.Life(producers), s.Life(channelClock), name)
	}
}

func producersLimited(s *testChannel) {
	var group sync.WaitGroup
	for part := range 4 {
		group.Go(func() {
			for i := part; i < channel.MaxProducers; i += 4 {
				id := fmt.Sprint(i)
				_, err := s.produce(channel.Producer{ID: id}, "m"+id)
				if err != nil {
					s.T.Errorf("producer %s: %v", id, err)
				}
			}
		})
	}
	group.Wait()
	_, err := s.produce(channel.Producer{ID: "one more"}, "x")
	require.ErrorIs(s.T, err, channel.ErrManyProducers)
	s.produces(channel.Producer{ID: "7", Sequence: 1}, false, "y")
}

func producersClose(s *testChannel) {
	s.produces(channel.Producer{ID: "p"}, false, "a")
	closing := channel.CloseRequest{Channel: s.Name, Policy: s.Policy, Producer: &channel.Producer{ID: "p", Sequence: 1}}
	_, err := s.Store.CloseChannel(s.Ctx(), channel.CloseRequest{Channel: s.Name, Policy: s.Policy,
		Producer: &channel.Producer{ID: "p"}})
	require.ErrorIs(s.T, err, channel.ErrProducerGap, "the sequence is that of a publish")
	require.False(s.T, s.life().Closed)
	for range 2 {
		at, err := s.Store.CloseChannel(s.Ctx(), closing)
		require.NoError(s.T, err)
		require.Equal(s.T, s.At(1), at.Clock)
	}
	s.refusesOf(channel.Producer{ID: "p", Sequence: 2}, channel.ErrClosed, "b")
	closing.Producer = &channel.Producer{ID: "q"}
	_, err = s.Store.CloseChannel(s.Ctx(), closing)
	require.ErrorIs(s.T, err, channel.ErrClosed)
	require.Equal(s.T, s.At(1), s.closeChannel().Clock)
}

// producersTogether publishes for several producers at the same time, each in order, some of which are refused.
func producersTogether(s *testChannel) {
	s.Subscribe("s")
	var group sync.WaitGroup
	for p := range 8 {
		id := fmt.Sprint("p", p)
		group.Go(func() {
			for n := range int64(10) {
				by := channel.Producer{ID: id, Sequence: n}
				_, ahead := s.produce(channel.Producer{ID: id, Sequence: n + 1}, fmt.Sprint(id, ".", n, ".ahead"))
				published, err := s.produce(by, fmt.Sprint(id, ".", n))
				if ahead == nil || err != nil || published[0].Duplicate {
					s.T.Errorf("%s %d: %v, %v", id, n, ahead, err)
				}
			}
		})
		group.Go(func() {
			for n := range 10 {
				if _, err := s.TryPublish(s.Ctx(), fmt.Sprint("x", p, ".", n)); err != nil {
					s.T.Errorf("%d %d: %v", p, n, err)
				}
			}
		})
	}
	group.Wait()
	require.Len(s.T, s.FetchUpTo("s", 1000).Messages, 160)
}

func ordersIncrease(s *testChannel) {
	publish := func(id, order string) error {
		_, err := s.Store.Publish(s.Ctx(), channel.PublishRequest{Channel: s.Name, Policy: s.Policy, Drafts: draftsOf(id),
			Order: order})
		return err
	}
	for i, order := range []string{"10", "2", "2a", "B", "a", "\xff", "\xff\x00"} {
		require.NoError(s.T, publish(fmt.Sprint(i), order), order)
		s.refusedBy(channel.ErrOrder, publish("x", order), i+1)
		s.refusedBy(channel.ErrOrder, publish("x", "1"), i+1)
	}
	s.Publish("without")
	require.ErrorIs(s.T, publish("x", "a"), channel.ErrOrder)
}

func producersLargest(s *testChannel) {
	largest := int64(clock.Max)
	s.produces(channel.Producer{ID: "p", Epoch: largest}, false, "a")
	require.Equal(s.T, largest, s.refusesOf(channel.Producer{ID: "p", Epoch: largest - 1}, channel.ErrFenced, "b").Epoch)
	require.EqualValues(s.T, 1, s.refusesOf(channel.Producer{ID: "p", Epoch: largest, Sequence: largest}, channel.ErrProducerGap,
		"b").Expected)
}
