package channeltest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func fetchCases() []testCase {
	return []testCase{
		{Name: "reading with any limit returns all messages", Clocks: true, Run: fetchWalks},
		{Name: "a fetch is bounded by bytes", Run: fetchBytes},
		{Name: "a fetch returns one message whatever its size, and counts expired ones before it",
			Run: fetchOneAtLeast},
	}
}

// fetchWalks fetches more messages than a store is likely to read at once, with limits near such numbers.
func fetchWalks(s *testChannel) {
	ids := numbered(70)
	s.Subscribe("start")
	s.Batch(ids...)
	for _, limit := range []int{1, 7, 15, 16, 17, 32, 64, 69, 70} {
		name := fmt.Sprintf("by%d", limit)
		s.SubscribeFrom(name, channel.From{Start: channel.StartAt, Clock: s.Start})
		walk(s, name, limit, ids)
	}
}

// walk reads with a limit until nothing is unread, and acknowledges each batch.
func walk(s *testChannel, name string, limit int, ids []string) {
	s.T.Helper()
	b := s.FetchUpTo(name, limit)
	for {
		n := min(limit, len(ids))
		s.CheckMessages(b, 0, ids[:n]...)
		if ids = ids[n:]; len(ids) == 0 {
			break
		}
		require.NotEqual(s.T, b.Clock, b.Through, "there is more")
		b = s.Next(name, b, limit)
	}
	require.Equal(s.T, b.Clock, b.Through, "there is no more")
}

func fetchBytes(s *testChannel) {
	s.Subscribe("s")
	kilobyte := []byte(`"` + strings.Repeat("x", 998) + `"`)
	for _, id := range numbered(40) {
		s.Send(channel.Draft{ID: id, Content: kilobyte})
	}
	r := s.Request("s", 100)
	r.MaxBytes = 5500
	b := s.FetchWith(r)
	require.LessOrEqual(s.T, len(b.Messages), 5, "at most as many messages as fit")
	require.GreaterOrEqual(s.T, len(b.Messages), 4, "about as many messages as fit")
	require.Equal(s.T, b.Messages[len(b.Messages)-1].Clock, b.Through, "the receipt ends at the last message")

	r.MaxBytes = 30_500 // beyond what a store is likely to read at once
	b = s.FetchWith(r)
	require.LessOrEqual(s.T, len(b.Messages), 30)
	require.GreaterOrEqual(s.T, len(b.Messages), 27)
	require.Len(s.T, s.Next("s", b, 100).Messages, 40-len(b.Messages), "next returns the rest")
}

func fetchOneAtLeast(s *testChannel) {
	s.Subscribe("s")
	ids := numbered(40)
	s.Batch(ids...)
	r := s.Request("s", 100)
	r.MaxBytes = 1
	for _, n := range []int{0, 3, 5, 20} {
		s.ExpireMessages(1, n)
		b := s.FetchWith(r)
		s.CheckMessages(b, n, ids[n])
		require.Equal(s.T, s.At(n+1), b.Through)
	}
}

func gapCases() []testCase {
	return []testCase{
		{Name: "lost messages are skipped wherever they were", Clocks: true, Run: gapAnywhere},
		{Name: "one fetch skips a million expired messages", Clocks: true, Run: gapMillion},
		{Name: "no gap is too long", Clocks: true, Run: gapHuge},
	}
}

// gapAnywhere removes messages, as expiry does at the beginning and an eviction anywhere.
func gapAnywhere(s *testChannel) {
	for i, lost := range [][]struct{ first, last int }{
		// the oldest first
		{{1, 1}, {2, 2}, {3, 15}, {16, 16}, {17, 17}, {18, 31}, {32, 33}, {34, 39}, {40, 69}, {70, 70}},
		{{5, 5}, {6, 20}, {21, 60}},
		{{66, 70}, {11, 65}},
	} {
		name, ids := fmt.Sprintf("s%d", i), numbered(70)
		for n, id := range ids {
			ids[n] = name + id
		}
		s.Start = s.Subscribe(name).Clock
		s.Batch(ids...)
		remaining := slices.Clone(ids)
		for _, span := range lost {
			s.ExpireMessages(span.first, span.last)
			remaining = slices.DeleteFunc(remaining, func(id string) bool {
				return slices.Contains(ids[span.first-1:span.last], id)
			})
			s.Reads(name, 70-len(remaining), remaining...)
		}
		s.Ack(name, s.Fetch(name))
		s.Reads(name, 0)
	}
}

func gapMillion(s *testChannel) {
	s.Subscribe("all")
	s.Subscribe("some")
	s.SetClock(s.At(million))
	b := s.Reads("all", million)
	require.Equal(s.T, s.At(million), b.Through)
	s.Publish("a", "b")
	s.CheckMessages(s.Next("all", b, 10), 0, "a", "b")

	b = s.FetchUpTo("some", 1)
	s.CheckMessages(b, million, "a")
	require.Equal(s.T, s.At(million+1), b.Through)
	s.CheckMessages(s.Next("some", b, 10), 0, "b")
}

// gapHuge fetches across a gap that is too long to visit each clock.
func gapHuge(s *testChannel) {
	const huge = 1 << 52
	s.Subscribe("s")
	s.SetClock(s.At(huge))
	b := s.Reads("s", huge)
	require.Equal(s.T, s.At(huge), b.Through)
	s.SubscribeFrom("early", earliest)
	s.Publish("a")
	s.Reads("s", huge, "a")
	s.Reads("early", 0, "a")
	require.Equal(s.T, uint64(1), s.Describe().Live)
}
