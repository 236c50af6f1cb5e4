package storagetest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// wrapCases are about the wrap alone. Ring cases go over it too.
func wrapCases() []testCase {
	return []testCase{
		{
			name: "the document's example", run: wrapExample,
			notice: "after 2^53-1 messages a channel stops, or its subscribers do",
		},
		{
			name: "clocks are decimal integers at the edges", run: wrapEdges,
			notice: "near 2^53 two messages share a clock, or a clock is lost to rounding",
		},
		{
			name: "a mark before the wrap and one after it", run: wrapMarks,
			notice: "at the wrap a subscriber gets everything again, or nothing any more",
		},
	}
}

// wrapExample is the example of the document that the keys come from: the mark at 2^53-3, the channel's clock at
// -(2^53-1)+1, and four unread messages.
func wrapExample(s *subject) {
	s.wind(1<<53 - 3)
	s.subscribe("s")
	s.publish("a", "b", "c", "d")
	b := s.reads("s", 0, "a", "b", "c", "d")
	var clocks []clock.Clock
	for _, m := range b.Messages {
		clocks = append(clocks, m.Clock)
	}
	require.Equal(s.t, []clock.Clock{1<<53 - 2, 1<<53 - 1, -(1<<53 - 1), -(1<<53 - 1) + 1}, clocks)
	require.Equal(s.t, clock.Clock(1<<53-3), b.Mark)
	require.Equal(s.t, clock.Clock(-(1<<53-1)+1), b.Clock)
	require.Equal(s.t, uint64(4), s.describe().Subscribers[0].Lag)
}

func wrapEdges(s *subject) {
	for i, edge := range []clock.Clock{
		clock.Max, clock.Max - 1, clock.Min, clock.Min + 1, -1, 1 << 52, -(1 << 52),
		99_999_999_999_999, 100_000_000_000_000, -100_000_000_000_001, 999_999_999_999_999, 1 << 31, 1<<31 - 1,
	} {
		at := s.on(longName[:i+1])
		at.wind(edge)
		at.subscribe("s")
		require.Equal(s.t, []channel.Published{{ID: "a", Clock: edge.Next()}}, at.publish("a"))
		require.Equal(s.t, []channel.Published{
			{ID: "b", Clock: edge.Next().Next()},
			{ID: "a", Clock: edge.Next(), Duplicate: true},
		}, at.batch("b", "a"))
		b := at.fetchUpTo("s", 1)
		require.Equal(s.t, edge, b.Mark)
		require.Equal(s.t, edge.Next(), b.Through)
		at.holds(at.next("s", b, 1), 0, "b")
		require.Equal(s.t, edge.Next().Next(), at.position().Clock)
	}
}

func wrapMarks(s *subject) {
	s.wind(clock.Max - 1)
	for _, name := range []string{"0", "1", "2", "3"} {
		s.subscribe(name)
		s.publish("after" + name)
	}
	s.reads("0", 0, "after0", "after1", "after2", "after3")
	s.reads("1", 0, "after1", "after2", "after3") // its mark is Max
	s.reads("2", 0, "after2", "after3")           // its mark is Min
	b := s.reads("3", 0, "after3")
	s.ack("0", b)
	s.reads("0", 0)

	ahead := s.receiptFor("1", b)
	ahead.Clock = clock.Min + 3
	require.ErrorIs(s.t, s.tryAck(ahead), channel.ErrReceiptAhead)
	behind := s.receiptFor("3", b)
	behind.Clock = clock.Max
	require.NoError(s.t, s.tryAck(behind))
	require.Equal(s.t, clock.Min+1, s.markOf("3"))
	var lags []uint64
	for _, sub := range s.describe().Subscribers {
		lags = append(lags, sub.Lag)
	}
	require.Equal(s.t, []uint64{0, 3, 2, 1}, lags)
}
