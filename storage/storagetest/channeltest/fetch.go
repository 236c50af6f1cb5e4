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
		{name: "reading with any limit returns all messages", clocks: true, run: fetchWalks},
		{name: "a fetch is bounded by bytes", run: fetchBytes},
		{name: "a fetch returns one message whatever its size, and counts expired ones before it", run: fetchOneAtLeast},
	}
}

// fetchWalks has more messages than a store is likely to read at once, and limits near such numbers.
func fetchWalks(s *subject) {
	ids := numbered(70)
	s.subscribe("start")
	s.batch(ids...)
	for _, limit := range []int{1, 7, 15, 16, 17, 32, 64, 69, 70} {
		name := fmt.Sprintf("by%d", limit)
		s.subscribeFrom(name, channel.From{Start: channel.StartAt, Clock: s.start})
		s.walk(name, limit, ids)
	}
}

// walk reads with a limit until nothing is unread, and acknowledges each batch.
func (s *subject) walk(name string, limit int, ids []string) {
	s.t.Helper()
	b := s.fetchUpTo(name, limit)
	for {
		n := min(limit, len(ids))
		s.checkMessages(b, 0, ids[:n]...)
		if ids = ids[n:]; len(ids) == 0 {
			break
		}
		require.NotEqual(s.t, b.Clock, b.Through, "there is more")
		b = s.next(name, b, limit)
	}
	require.Equal(s.t, b.Clock, b.Through, "there is no more")
}

func fetchBytes(s *subject) {
	s.subscribe("s")
	kilobyte := []byte(`"` + strings.Repeat("x", 998) + `"`)
	for _, id := range numbered(40) {
		s.send(channel.Draft{ID: id, Content: kilobyte})
	}
	r := s.request("s", 100)
	r.MaxBytes = 5500
	b := s.fetchWith(r)
	require.LessOrEqual(s.t, len(b.Messages), 5, "at most as many messages as fit")
	require.GreaterOrEqual(s.t, len(b.Messages), 4, "about as many messages as fit")
	require.Equal(s.t, b.Messages[len(b.Messages)-1].Clock, b.Through, "the receipt ends at the last message")

	r.MaxBytes = 30_500 // beyond what a store is likely to read at once
	b = s.fetchWith(r)
	require.LessOrEqual(s.t, len(b.Messages), 30)
	require.GreaterOrEqual(s.t, len(b.Messages), 27)
	require.Len(s.t, s.next("s", b, 100).Messages, 40-len(b.Messages), "next returns the rest")
}

func fetchOneAtLeast(s *subject) {
	s.subscribe("s")
	ids := numbered(40)
	s.batch(ids...)
	r := s.request("s", 100)
	r.MaxBytes = 1
	for _, n := range []int{0, 3, 5, 20} {
		s.expireMessages(1, n)
		b := s.fetchWith(r)
		s.checkMessages(b, n, ids[n])
		require.Equal(s.t, s.at(n+1), b.Through)
	}
}

func gapCases() []testCase {
	return []testCase{
		{name: "lost messages are skipped wherever they were", clocks: true, run: gapAnywhere},
		{name: "one fetch skips a million expired messages", clocks: true, run: gapMillion},
		{name: "no gap is too long", clocks: true, run: gapHuge},
	}
}

// gapAnywhere removes messages, as expiry does at the beginning and an eviction anywhere.
func gapAnywhere(s *subject) {
	for i, lost := range [][]struct{ first, last int }{
		{{1, 1}, {2, 2}, {3, 15}, {16, 16}, {17, 17}, {18, 31}, {32, 33}, {34, 39}, {40, 69}, {70, 70}}, // the oldest first
		{{5, 5}, {6, 20}, {21, 60}},
		{{66, 70}, {11, 65}},
	} {
		name, ids := fmt.Sprintf("s%d", i), numbered(70)
		for n, id := range ids {
			ids[n] = name + id
		}
		s.start = s.subscribe(name).Clock
		s.batch(ids...)
		left := slices.Clone(ids)
		for _, span := range lost {
			s.expireMessages(span.first, span.last)
			left = slices.DeleteFunc(left, func(id string) bool {
				return slices.Contains(ids[span.first-1:span.last], id)
			})
			s.reads(name, 70-len(left), left...)
		}
		s.ack(name, s.fetch(name))
		s.reads(name, 0)
	}
}

const million = 1_000_000

func gapMillion(s *subject) {
	s.subscribe("all")
	s.subscribe("some")
	s.setClock(s.at(million))
	b := s.reads("all", million)
	require.Equal(s.t, s.at(million), b.Through)
	s.publish("a", "b")
	s.checkMessages(s.next("all", b, 10), 0, "a", "b")

	b = s.fetchUpTo("some", 1)
	s.checkMessages(b, million, "a")
	require.Equal(s.t, s.at(million+1), b.Through)
	s.checkMessages(s.next("some", b, 10), 0, "b")
}

// gapHuge has a gap that is too long to visit each clock.
func gapHuge(s *subject) {
	const huge = 1 << 52
	s.subscribe("s")
	s.setClock(s.at(huge))
	b := s.reads("s", huge)
	require.Equal(s.t, s.at(huge), b.Through)
	s.subscribeFrom("early", earliest)
	s.publish("a")
	s.reads("s", huge, "a")
	s.reads("early", 0, "a")
	require.Equal(s.t, uint64(1), s.describe().Live)
}
