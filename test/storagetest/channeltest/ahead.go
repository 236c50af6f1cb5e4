package channeltest

import (
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/receipt"
)

func aheadCases() []testCase {
	return []testCase{
		{Name: "a fetch begins at a position ahead of the mark, and moves nothing", Clocks: true, Run: aheadReads},
		{Name: "a fetch from a position of another history begins at the mark", Clocks: true, Run: aheadElsewhere},
		{Name: "a fetch from a position whose message has expired begins there", Clocks: true, Run: aheadExpired},
		{Name: "fetches from positions are independent of each other", Run: aheadEach},
		{Name: "a fetch from a position renews the mark as any other", Run: aheadRenews},
	}
}

// fetchAfter fetches the messages after the position of a receipt, alone and together with another fetch, and checks
// where the fetch has begun, and whether the position is of another history.
func (s *testChannel) fetchAfter(after receipt.Receipt, begins int, lost bool) channel.Batch {
	s.T.Helper()
	r := s.Request(after.Subscriber, 100)
	r.After = &after
	b := s.FetchWith(r)
	require.Equal(s.T, s.At(begins), b.After, "where it begins")
	require.Equal(s.T, lost, b.Lost, "whether the position is of another history")
	checked := r
	checked.FromMark = true
	fromMark := s.FetchWith(checked)
	require.Equal(s.T, lost, fromMark.Lost)
	require.Equal(s.T, fromMark.Mark, fromMark.After, "a position that is only checked moves nothing")
	together := s.Store.FetchEach(s.Ctx(), []channel.FetchRequest{r, s.Request(after.Subscriber, 100)})
	require.Equal(s.T, channel.BatchResult{Batch: b}, together[0])
	require.Equal(s.T, together[1].Mark, together[1].After)
	return b
}

func aheadReads(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d")
	two := s.ReceiptFor("s", s.FetchUpTo("s", 2))
	all := s.ReceiptFor("s", s.Fetch("s"))
	for range 2 {
		b := s.fetchAfter(two, 2, false)
		s.CheckMessages(b, 0, "c", "d")
		require.Equal(s.T, s.At(0), b.Mark)
		s.CheckMessages(s.fetchAfter(all, 4, false), 0)
	}
	require.Equal(s.T, s.At(0), s.MarkOf("s"))

	require.NoError(s.T, s.TryAck(two))
	s.CheckMessages(s.fetchAfter(two, 2, false), 0, "c", "d")
	require.NoError(s.T, s.TryAck(all))
	require.Equal(s.T, s.At(4), s.fetchAfter(two, 4, false).Mark, "the mark has passed the position")
	s.Publish("e")
	s.CheckMessages(s.fetchAfter(two, 4, false), 0, "e")
}

// aheadElsewhere has positions of another life, ahead of the clock, and of messages that a fail-over has lost.
func aheadElsewhere(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c")
	after := s.ReceiptFor("s", s.Fetch("s"))
	other, ahead := after, after
	other.Epoch = ulid.MustNew(1, nil)
	ahead.Clock = s.At(million)
	for _, r := range []receipt.Receipt{other, ahead} {
		s.CheckMessages(s.fetchAfter(r, 0, true), 0, "a", "b", "c")
	}
	s.loseAfter(1, "b", "c")
	s.CheckMessages(s.fetchAfter(after, 0, true), 0, "a")
	s.Publish("x", "y")
	s.CheckMessages(s.fetchAfter(after, 0, true), 0, "a", "x", "y")
	unknown := after
	unknown.MessageID, unknown.Write = "", receipt.Write{}
	s.CheckMessages(s.fetchAfter(unknown, 0, true), 0, "a", "x", "y")
	s.Ack("s", s.Fetch("s"))
	s.CheckMessages(s.fetchAfter(after, 3, true), 0)
	s.CheckMessages(s.fetchAfter(unknown, 3, false), 0) // as that of a mark
}

func aheadExpired(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b", "c", "d")
	after := s.ReceiptFor("s", s.FetchUpTo("s", 2))
	s.ExpireMessages(1, 3)
	s.CheckMessages(s.fetchAfter(after, 2, false), 1, "d")
	s.Expire(record("b"))
	s.CheckMessages(s.fetchAfter(after, 0, true), 3, "d")
	s.CheckMessages(s.fetchAfter(aged(after), 2, false), 1, "d")
	s.Policy.MaxMessages = 1
	s.Publish("e", "f")
	s.CheckMessages(s.Fetch("s"), 5, "f")
}

// aheadEach has channels on all nodes of a Cluster.
func aheadEach(s *testChannel) {
	requests := make([]channel.FetchRequest, 50)
	for i := range requests {
		at := s.On(numbered(50)[i])
		at.Subscribe("s")
		at.Publish("a", "b", "c")
		after := at.ReceiptFor("s", at.FetchUpTo("s", 1+i%3))
		requests[i] = at.Request("s", 10)
		requests[i].After = &after
	}
	for i, got := range s.Store.FetchEach(s.Ctx(), requests) {
		require.NoError(s.T, got.Err)
		s.CheckMessages(got.Batch, 0, []string{"a", "b", "c"}[1+i%3:]...)
	}
	requests[7].Subscriber, requests[7].After.Subscriber = "nobody", "nobody"
	results := s.Store.FetchEach(s.Ctx(), requests)
	require.ErrorIs(s.T, results[7].Err, channel.ErrNoSubscriber)
	require.NoError(s.T, results[8].Err)
}

func aheadRenews(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a")
	after := s.ReceiptFor("s", s.Fetch("s"))
	r := s.Request("s", 10)
	r.After, r.Wait = &after, ttl/4
	s.SetLife(ttl/2, ownParts...)
	s.CheckMessages(s.FetchWith(r), 0)
	require.Greater(s.T, s.Life(mark("s")), ttl+r.Wait-time.Minute)
	s.SetLife(ttl/2, message(s.At(1)))
	s.FetchWith(r)
	s.NotRenewed(ttl/2, message(s.At(1)))
}
