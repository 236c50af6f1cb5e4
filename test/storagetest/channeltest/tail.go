package channeltest

import (
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/receipt"
)

func tailCases() []testCase {
	return []testCase{
		{Name: "a tail begins at the latest, the earliest or any clock", Clocks: true, Run: tailBegins},
		{Name: "a tail continues at a position", Clocks: true, Run: tailContinues},
		{Name: "a tail from a position of another history begins elsewhere", Clocks: true, Run: tailElsewhere},
		{Name: "a tail continues where it began without a message", Clocks: true, Run: tailIdle},
		{Name: "a tail continues at a position whose message it does not know", Clocks: true, Run: tailOfAnything},
		{Name: "a tail needs a channel", Run: tailOfNothing},
		{Name: "a tail renews nothing", Run: tailRenewsNothing},
		{Name: "tails and subscribers are fetched together", Run: tailEach},
	}
}

var latest = channel.From{Start: channel.StartLatest}

// tailFrom fetches as a tail, alone and together with another one, and checks where it has begun.
func (s *testChannel) tailFrom(from channel.From, after *receipt.Receipt, begins int, lost bool) channel.Batch {
	s.T.Helper()
	r := s.tail(from)
	r.After = after
	b := s.FetchWith(r)
	require.Equal(s.T, s.At(begins), b.After, "where it begins")
	require.Equal(s.T, b.After, b.Mark)
	require.Equal(s.T, lost, b.Lost)
	together := s.Store.FetchEach(s.Ctx(), []channel.FetchRequest{r, s.tail(latest)})
	require.Equal(s.T, channel.BatchResult{Batch: b}, together[0])
	require.Empty(s.T, together[1].Messages)
	return b
}

func (s *testChannel) tail(from channel.From) channel.FetchRequest {
	r := s.Request("", 100)
	r.Tail = &from
	return r
}

// fromClock begins after the n-th message since the start.
func (s *testChannel) fromClock(n int) channel.From {
	return channel.From{Start: channel.StartAt, Clock: s.At(n)}
}

func tailBegins(s *testChannel) {
	s.Subscribe("s")
	s.CheckMessages(s.tailFrom(earliest, nil, 0, false), 0)
	s.Publish("a", "b", "c", "d")
	s.CheckMessages(s.tailFrom(latest, nil, 4, false), 0)
	s.CheckMessages(s.tailFrom(earliest, nil, 0, false), 0, "a", "b", "c", "d")
	s.CheckMessages(s.tailFrom(s.fromClock(2), nil, 2, false), 0, "c", "d")
	s.CheckMessages(s.tailFrom(s.fromClock(4), nil, 4, false), 0)
	_, err := s.Store.Fetch(s.Ctx(), s.tail(s.fromClock(5)))
	require.ErrorIs(s.T, err, channel.ErrClockAhead)
	where := s.tail(earliest)
	where.Max = 0
	b, err := s.Store.Fetch(s.Ctx(), where)
	require.NoError(s.T, err)
	require.Equal(s.T, channel.Batch{Epoch: s.Position().Epoch, Mark: s.At(0), After: s.At(0), Through: s.At(0),
		Clock: s.At(4), Messages: []channel.Message{}}, b)

	s.ExpireMessages(1, 2)
	s.CheckMessages(s.tailFrom(earliest, nil, 2, false), 0, "c", "d")
	s.CheckMessages(s.tailFrom(s.fromClock(0), nil, 0, false), 2, "c", "d")
	s.Policy.MaxMessages = 1
	s.CheckMessages(s.tailFrom(earliest, nil, 3, false), 0, "d")
	s.CheckMessages(s.tailFrom(s.fromClock(1), nil, 1, false), 2, "d")
	s.Policy.MaxMessages = 0
	s.ExpireMessages(3, 4)
	s.CheckMessages(s.tailFrom(earliest, nil, 4, false), 0)
}

func tailContinues(s *testChannel) {
	s.Publish("a", "b", "c", "d")
	after := s.ReceiptFor("", s.tailFrom(s.fromClock(0), nil, 0, false))
	require.Equal(s.T, "d", after.MessageID)
	for _, from := range []channel.From{latest, earliest, s.fromClock(0), s.fromClock(9)} {
		s.CheckMessages(s.tailFrom(from, &after, 4, false), 0)
	}
	s.Publish("e")
	limited := s.tail(s.fromClock(0))
	limited.Max = 2
	two := s.ReceiptFor("", s.FetchWith(limited))
	for _, from := range []channel.From{latest, earliest, s.fromClock(3)} {
		s.CheckMessages(s.tailFrom(from, &after, 4, false), 0, "e")
		s.CheckMessages(s.tailFrom(from, &two, 2, false), 0, "c", "d", "e")
	}
	s.ExpireMessages(1, 3)
	s.CheckMessages(s.tailFrom(latest, &two, 2, false), 1, "d", "e")
}

// tailElsewhere has positions of another life, ahead of the clock, and of messages that a fail-over has lost.
func tailElsewhere(s *testChannel) {
	s.Publish("a", "b", "c")
	after := s.ReceiptFor("", s.tailFrom(earliest, nil, 0, false))
	other, ahead := after, after
	other.Epoch = ulid.MustNew(1, nil)
	ahead.Clock = s.At(million)
	for _, from := range []channel.From{latest, s.fromClock(2), s.fromClock(million)} {
		s.CheckMessages(s.tailFrom(from, &other, 0, true), 0, "a", "b", "c")
	}
	s.CheckMessages(s.tailFrom(earliest, &ahead, 0, true), 0, "a", "b", "c")
	s.CheckMessages(s.tailFrom(latest, &ahead, 3, true), 0)
	s.CheckMessages(s.tailFrom(s.fromClock(million), &ahead, 3, true), 0)
	s.loseAfter(1, "b", "c")
	s.Publish("x", "y")
	s.CheckMessages(s.tailFrom(s.fromClock(1), &after, 1, true), 0, "x", "y")
	s.CheckMessages(s.tailFrom(latest, &after, 3, true), 0)
}

// tailIdle continues from where a tail has begun without a message.
func tailIdle(s *testChannel) {
	s.Publish("a", "b", "c")
	r := s.tail(latest)
	r.Max, r.Identify = 0, true
	start := s.ReceiptFor("", s.FetchWith(r))
	require.Equal(s.T, "c", start.MessageID)
	s.CheckMessages(s.tailFrom(latest, &start, 3, false), 0)
	s.loseAfter(1, "b", "c")
	s.Publish("x", "c")
	s.CheckMessages(s.tailFrom(s.fromClock(1), &start, 1, true), 0, "x", "c")
	s.ExpireMessages(1, 3)
	empty := s.ReceiptFor("", s.FetchWith(r))
	require.Empty(s.T, empty.MessageID)
	s.CheckMessages(s.tailFrom(latest, &empty, 3, false), 0)
}

// tailOfAnything continues at the positions of publishes, without the identity of their messages.
func tailOfAnything(s *testChannel) {
	s.Publish("a", "b", "c")
	r := s.tail(s.fromClock(0))
	after := receipt.Receipt{Channel: s.Name, Epoch: s.Position().Epoch, Clock: s.At(2)}
	r.After = &after
	require.True(s.T, s.FetchWith(r).Lost, "no message was there")
	r.Anything = true
	b := s.FetchWith(r)
	require.False(s.T, b.Lost)
	s.CheckMessages(b, 0, "c")
	after.Clock = s.At(million)
	require.True(s.T, s.FetchWith(r).Lost)
	after.Clock, after.Epoch = s.At(2), ulid.MustNew(1, nil)
	require.True(s.T, s.FetchWith(r).Lost)
}

func tailOfNothing(s *testChannel) {
	nowhere := receipt.Receipt{Channel: s.Name, Epoch: ulid.MustNew(1, nil), Clock: 5}
	for _, from := range []channel.From{latest, earliest, s.fromClock(5)} {
		for _, after := range []*receipt.Receipt{nil, &nowhere} {
			r := s.tail(from)
			r.After = after
			_, err := s.Store.Fetch(s.Ctx(), r)
			require.ErrorIs(s.T, err, channel.ErrNoChannel)
			require.ErrorIs(s.T, s.Store.FetchEach(s.Ctx(), []channel.FetchRequest{r})[0].Err, channel.ErrNoChannel)
		}
	}
	_, err := s.TryPosition()
	require.ErrorIs(s.T, err, channel.ErrNoChannel)
}

func tailRenewsNothing(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a")
	parts := append([]Part{message(s.At(1))}, ownParts...)
	s.SetLife(ttl/2, parts...)
	s.CheckMessages(s.tailFrom(earliest, nil, 0, false), 0, "a")
	r := s.tail(latest)
	r.Wait = ttl / 4
	s.CheckMessages(s.FetchWith(r), 0)
	s.NotRenewed(ttl/2, parts...)
	require.Len(s.T, s.Describe().Subscribers, 1)
}

// tailEach has channels on all nodes of a Cluster.
func tailEach(s *testChannel) {
	requests := make([]channel.FetchRequest, 50)
	for i := range requests {
		at := s.On(numbered(50)[i])
		at.Subscribe("s")
		at.Publish("a", "b", "c")
		if requests[i] = at.Request("s", 10); i%2 == 0 {
			requests[i] = at.tail(at.fromClock(1 + i%3))
		}
	}
	for i, got := range s.Store.FetchEach(s.Ctx(), requests) {
		require.NoError(s.T, got.Err)
		want := []string{"a", "b", "c"}
		if i%2 == 0 {
			want = want[1+i%3:]
		}
		s.CheckMessages(got.Batch, 0, want...)
	}
}
