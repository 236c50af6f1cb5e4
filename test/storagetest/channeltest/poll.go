package channeltest

import (
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/receipt"
)

func pollCases() []testCase {
	return []testCase{
		{Name: "a poll finds clock and mark, and fetches together read what is between", Clocks: true, Run: pollFinds},
		{Name: "sources are independent of each other", Run: pollAlone},
		{Name: "a poll acknowledges, and a receipt that is refused stops no other", Clocks: true, Run: pollAcks},
		{Name: "a poll tells which subscribers must be renewed, and a fetch renews them", Run: pollRenews},
		{Name: "a poll's acknowledgement leaves a life for its wait", Run: pollAckRenews},
		{Name: "a subscriber that was made again isn't taken for the earlier one", Run: pollRemade},
	}
}

// poll polls the subscriber "s" of channels.
func poll(wait time.Duration, all ...*testChannel) []channel.PollResult {
	s := all[0]
	s.T.Helper()
	requests := make([]channel.PollRequest, len(all))
	for i, channel := range all {
		requests[i].FetchRequest = channel.Request("s", 10)
		requests[i].Wait = wait
	}
	results := s.Store.Poll(s.Ctx(), requests)
	require.Len(s.T, results, len(all))
	return results
}

// acking polls the subscriber "s" with a receipt.
func acking(s *testChannel, r receipt.Receipt, wait time.Duration) channel.PollResult {
	request := channel.PollRequest{FetchRequest: s.Request("s", 10), Receipt: &r}
	request.Wait = wait
	return s.Store.Poll(s.Ctx(), []channel.PollRequest{request})[0]
}

func pollFinds(s *testChannel) {
	s.Subscribe("s")
	s.Subscribe("other")
	expect := func(mark, clock int, ids ...string) {
		s.T.Helper()
		r := poll(time.Second, s)[0]
		require.NoError(s.T, r.Err)
		require.Equal(s.T, channel.PollResult{Position: s.Position(), Mark: s.At(mark), Due: r.Due}, r)
		require.Equal(s.T, s.At(clock), r.Clock)
		both := s.Store.FetchEach(s.Ctx(), []channel.FetchRequest{s.Request("s", 1), s.Request("s", 10)})
		require.NoError(s.T, both[0].Err)
		s.CheckMessages(both[0].Batch, 0, ids[:min(1, len(ids))]...)
		s.CheckMessages(both[1].Batch, 0, ids...)
	}
	expect(0, 0)
	s.Publish("a", "b", "c")
	expect(0, 3, "a", "b", "c")
	s.Ack("s", s.FetchUpTo("s", 2))
	expect(2, 3, "c")
	s.Ack("s", s.Fetch("s"))
	expect(3, 3)
	require.Equal(s.T, s.At(0), s.MarkOf("other"))
}

// pollAlone has channels on all nodes of a Cluster, of which some don't exist.
func pollAlone(s *testChannel) {
	var all []*testChannel
	requests := make([]channel.FetchRequest, 100)
	for i := range requests {
		at := s.On(fmt.Sprint("ch", i))
		requests[i] = at.Request("s", 10)
		switch i % 3 {
		case 0:
			at.Subscribe("s")
			at.Publish("a")
		case 1:
			at.Subscribe("other")
		}
		all = append(all, at)
	}
	polled, fetched := poll(0, all...), s.Store.FetchEach(s.Ctx(), requests)
	for i := range requests {
		if i%3 != 0 {
			require.ErrorIs(s.T, polled[i].Err, channel.ErrNoSubscriber)
			require.ErrorIs(s.T, fetched[i].Err, channel.ErrNoSubscriber)
			continue
		}
		require.NoError(s.T, polled[i].Err)
		require.EqualValues(s.T, 1, polled[i].Clock-polled[i].Mark)
		require.NoError(s.T, fetched[i].Err)
		all[i].CheckMessages(fetched[i].Batch, 0, "a")
	}
	require.Empty(s.T, s.Store.Poll(s.Ctx(), nil))
	require.Empty(s.T, s.Store.FetchEach(s.Ctx(), nil))
}

func pollAcks(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	b := s.FetchUpTo("s", 2)
	good := s.ReceiptFor("s", b)
	for range 2 { // a repeat succeeds
		r := acking(s, good, 0)
		require.NoError(s.T, r.Err)
		require.Equal(s.T, s.At(2), r.Mark)
		require.Equal(s.T, s.At(3), r.Clock)
	}
	ahead, other, replaced := good, good, s.ReceiptFor("s", s.Fetch("s"))
	ahead.Clock, other.Epoch, replaced.Write = s.At(4), ulid.MustNew(1, nil), receipt.NewWrite()
	nobody := good
	nobody.Subscriber = "nobody"
	requests := make([]channel.PollRequest, 5)
	for i, r := range []receipt.Receipt{ahead, good, other, replaced, nobody} {
		requests[i] = channel.PollRequest{FetchRequest: s.Request(r.Subscriber, 10), Receipt: &r}
	}
	results := s.Store.Poll(s.Ctx(), requests)
	for i, want := range []error{
		channel.ErrReceiptAhead, nil, channel.ErrReceiptEpoch, channel.ErrReceiptSuperseded, channel.ErrNoSubscriber,
	} {
		require.ErrorIs(s.T, results[i].Err, want, "%d", i)
	}
	require.Equal(s.T, s.At(2), s.MarkOf("s"))
}

func pollRenews(s *testChannel) {
	const wait = time.Minute
	lives := []struct {
		name string
		life time.Duration
		wait time.Duration
		due  bool
	}{
		{"young", ttl * 93 / 100, 0, false},
		{"old", ttl * 87 / 100, 0, true},
		{"young that waits", ttl + wait*2, wait, false},
		{"too old to wait", ttl + wait/2, wait, true},
		{"about to end", time.Minute, 0, true},
	}
	for i, l := range lives {
		at := s.On(fmt.Sprint("ch", i))
		at.Subscribe("s")
		at.SetLife(l.life, channelClock, epoch, subscribers, mark("s"))
		for range 2 {
			r := poll(l.wait, at)[0]
			require.NoError(s.T, r.Err)
			require.Equal(s.T, l.due, r.Due, l.name)
		}
		at.NotRenewed(l.life, mark("s"))
		if !l.due {
			continue
		}
		request := at.Request("s", 1)
		request.Wait = l.wait
		require.NoError(s.T, at.Store.FetchEach(at.Ctx(), []channel.FetchRequest{request})[0].Err)
		require.False(s.T, poll(l.wait, at)[0].Due, l.name)
		require.GreaterOrEqual(s.T, at.Life(mark("s")), ttl-time.Minute)
		at.Outlives(mark("s"))
	}
}

func pollAckRenews(s *testChannel) {
	const wait = 10 * time.Minute
	s.Subscribe("s")
	s.Publish("a")
	b := s.Fetch("s")
	s.SetLife(ttl/2, mark("s"))
	r := acking(s, s.ReceiptFor("s", b), wait)
	require.NoError(s.T, r.Err)
	require.False(s.T, r.Due)
	require.Greater(s.T, s.Life(mark("s")), ttl+wait-time.Minute)
	s.Outlives(mark("s"))
}

func pollRemade(s *testChannel) {
	const wait = time.Minute
	s.Subscribe("s")
	s.SetLife(2*ttl, channelClock, epoch, subscribers, mark("s"))
	require.False(s.T, poll(wait, s)[0].Due)
	s.Unsubscribe("s")
	s.Subscribe("s")
	require.True(s.T, poll(wait, s)[0].Due, "it has the TTL, and needs the wait too")
}
