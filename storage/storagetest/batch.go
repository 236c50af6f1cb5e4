package storagetest

import (
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

func batchCases() []testCase {
	return []testCase{
		{
			name: "a batch gets successive clocks in its order", ring: true, run: batchOrder,
			notice: "the messages of a batch come in another order than they were sent, or with others in between",
		},
		{
			name: "an ID repeated within a batch counts once", ring: true, run: batchRepeatedWithin,
			notice: "one batch makes two messages of one ID",
		},
		{
			name: "a batch of old and new IDs adds the new ones", ring: true, run: batchMixed,
			notice: "a retried batch that had grown loses or doubles messages",
		},
		{
			name: "a batch of old IDs changes nothing", run: batchOfOld,
			notice: "a retried batch makes new messages or prolongs lives",
		},
		{
			name: "a batch may have a thousand messages", run: batchOfThousand,
			notice: "a large batch fails, or only a part of it arrives",
		},
		{
			name: "a batch makes its channel", run: batchMakesChannel,
			notice: "the first publish to a name fails where it is a batch",
		},
	}
}

func batchOrder(s *subject) {
	s.subscribe("s")
	s.publish("z")
	for i, p := range s.batch("c", "a", "b") {
		require.Equal(s.t, s.at(i+2), p.Clock)
		require.False(s.t, p.Duplicate)
	}
	require.Equal(s.t, s.at(5), s.publish("d")[0].Clock)
	s.reads("s", 0, "z", "c", "a", "b", "d")
}

func batchRepeatedWithin(s *subject) {
	s.subscribe("s")
	require.Equal(s.t, []channel.Published{
		{ID: "a", Clock: s.at(1)},
		{ID: "b", Clock: s.at(2)},
		{ID: "a", Clock: s.at(1), Duplicate: true},
		{ID: "c", Clock: s.at(3)},
		{ID: "b", Clock: s.at(2), Duplicate: true},
	}, s.batch("a", "b", "a", "c", "b"))
	s.reads("s", 0, "a", "b", "c")
}

func batchMixed(s *subject) {
	s.subscribe("s")
	s.publish("x", "b")
	require.Equal(s.t, []channel.Published{
		{ID: "a", Clock: s.at(3)},
		{ID: "b", Clock: s.at(2), Duplicate: true},
		{ID: "c", Clock: s.at(4)},
		{ID: "x", Clock: s.at(1), Duplicate: true},
	}, s.batch("a", "b", "c", "x"))
	s.reads("s", 0, "x", "b", "a", "c")
}

func batchOfOld(s *subject) {
	s.subscribe("s")
	s.batch("a", "b")
	before := s.reads("s", 0, "a", "b")
	parts := []Part{clockPart, epochPart, message(1), message(2), record("a"), record("b")}
	s.setLife(ttl/2, parts...)
	for _, p := range s.batch("b", "a", "b") {
		require.True(s.t, p.Duplicate, p.ID)
	}
	for _, p := range parts {
		require.LessOrEqual(s.t, s.life(p), ttl/2, "the life of %s", p)
	}
	require.Equal(s.t, before, s.reads("s", 0, "a", "b"))
}

func batchOfThousand(s *subject) {
	s.policy.MaxMessages = 5000
	s.subscribe("s")
	ids := numbered(1000)
	s.batch(ids...)
	for _, p := range s.batch(ids...) {
		require.True(s.t, p.Duplicate, p.ID)
	}
	s.reads("s", 0, ids...)
}

func batchMakesChannel(s *subject) {
	published := s.batch("a", "b")
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: 1}, {ID: "b", Clock: 2}}, published)
	s.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
	s.reads("s", 0, "a", "b")
}
