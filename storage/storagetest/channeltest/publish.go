package channeltest

import (
	"context"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

func publishCases() []testCase {
	return []testCase{
		{name: "clocks are decimal integers at the edges", run: publishAtEdges},
		{name: "repeated IDs change nothing", run: publishRepeated},
		{name: "a canceled publish can be repeated", run: publishCanceled},
		{name: "a batch may have a thousand messages", run: publishThousand},
	}
}

func publishAtEdges(s *subject) {
	for i, edge := range []clock.Clock{
		clock.Max, clock.Max - 1, clock.Min, clock.Min + 1, -1, 1 << 52, -(1 << 52),
		99_999_999_999_999, 100_000_000_000_000, -100_000_000_000_001, 999_999_999_999_999, 1 << 31, 1<<31 - 1,
	} {
		at := s.on(longName[:i+1])
		at.startAt(edge)
		at.subscribe("s")
		require.Equal(s.t, []channel.Published{{ID: "a", Clock: edge.Next()}}, at.publish("a"))
		require.Equal(s.t, []channel.Published{
			{ID: "b", Clock: edge.Next().Next()},
			{ID: "a", Clock: edge.Next(), Duplicate: true},
		}, at.batch("b", "a"))
		b := at.fetchUpTo("s", 1)
		require.Equal(s.t, edge, b.Mark)
		require.Equal(s.t, edge.Next(), b.Through)
		at.checkMessages(at.next("s", b, 1), 0, "b")
		require.Equal(s.t, edge.Next().Next(), at.position().Clock)
	}
}

func publishRepeated(s *subject) {
	s.subscribe("s")
	s.batch("a", "b")
	before := s.reads("s", 0, "a", "b")
	parts := []Part{
		clockPart, epochPart, subscribersPart, mark("s"), message(1), message(2), record("a"), record("b"),
	}
	other := []byte(`"another content"`)
	for _, drafts := range [][]channel.Draft{
		{{ID: "a", Content: other}},
		{{ID: "b", Content: other}, {ID: "a", Content: other}, {ID: "b", Content: other}},
	} {
		s.setLife(ttl/2, parts...)
		for _, p := range s.send(drafts...) {
			require.True(s.t, p.Duplicate, p.ID)
		}
		for _, p := range parts {
			require.LessOrEqual(s.t, s.life(p), ttl/2, "the life of %s", p)
		}
		require.Equal(s.t, before, s.reads("s", 0, "a", "b"))
	}
}

// publishCanceled cancels publishes at any moment, and repeats each until it succeeds.
func publishCanceled(s *subject) {
	s.subscribe("s")
	var all []string
	for range 20 {
		ids := []string{}
		for _, id := range numbered(3) {
			ids = append(ids, longName[:len(all)+1]+"."+id)
		}
		ctx, cancel := context.WithCancel(s.ctx())
		done := make(chan struct{})
		go func() {
			defer close(done)
			cancel()
		}()
		_, _ = s.tryPublish(ctx, ids...)
		<-done
		for i, p := range s.batch(ids...) {
			require.Equal(s.t, s.at(len(all)+i+1), p.Clock, "the clock of %s after a canceled first try", p.ID)
		}
		all = append(all, ids...)
	}
	s.reads("s", 0, all...)
}

func publishThousand(s *subject) {
	s.policy.MaxMessages = 5000
	s.subscribe("s")
	ids := numbered(1000)
	s.batch(ids...)
	for _, p := range s.batch(ids...) {
		require.True(s.t, p.Duplicate, p.ID)
	}
	s.reads("s", 0, ids...)
}

func contentCases() []testCase {
	return []testCase{
		{name: "contents are kept byte for byte", run: contentKept},
		{name: "events have contents byte for byte", run: contentNotified},
		{name: "a content may have a megabyte", run: contentLarge},
		{name: "messages have their publish time", run: contentPublishedAt},
	}
}

// contents are JSON texts that are easily changed or misread on the way.
var contents = []string{
	`null`, `true`, `0`, `""`, `{}`, `[]`,
	"  { \"a\" :\t1 ,\r\n\"b\":[ ] }  \n",
	`-0`, `-0.0`, `0.10`, `1E400`, `1e-400`, `9007199254740993`, `-9007199254740993`, `123456789012345678901234567890`,
	`"é ü 漢字 🌊 ` + "\u2028\u2029\ufeff" + `"`,
	`"\u00e9 \ud83c\udf0a \ud800 \u0000 \u007f \/ \\ \" \b\f\n\r\t"`,
	"\"\x7f\"",
	`"<script>&amp;</script>"`,
	`"%s %d %% $1 ${1} {0} \\u0000"`,
	`",\"at\":123}"`,
	`{"at":123}`,
	`{"a":1,"at":123}`,
	"\n{\"a\":1,\"at\":123} ",
	`{"id":"other","content":{"id":"m1","content":1,"at":5},"at":6}`,
	`{"content":"\",\"content\":1"}`,
	`"\",\"content\":"`,
	`["!s","x 1 !s"," ","01ARZ3NDEKTSV4RRFFQ69G5FAV 1 {}"]`,
	`{"a":1,"a":2}`,
	strings.Repeat("[", 200) + strings.Repeat("]", 200),
}

func contentDrafts() []channel.Draft {
	drafts := make([]channel.Draft, len(contents))
	for i, content := range contents {
		drafts[i] = channel.Draft{ID: fmt.Sprintf("m%d", i+1), Content: []byte(content)}
	}
	return drafts
}

func contentKept(s *subject) {
	single := s.on("single")
	s.subscribe("s")
	single.subscribe("s")
	s.send(contentDrafts()...)
	for _, d := range contentDrafts() {
		single.send(d)
	}
	for _, sub := range []*subject{s, single} {
		b := sub.fetch("s")
		require.Len(s.t, b.Messages, len(contents))
		for i, m := range b.Messages {
			require.Equal(s.t, fmt.Sprintf("m%d", i+1), m.ID)
			require.Equal(s.t, contents[i], string(m.Content))
		}
	}
}

func contentNotified(s *subject) {
	events := s.listen()
	events.confirmed()
	s.send(contentDrafts()...)
	for i, content := range contents {
		m := events.published(s.at(i + 1))
		require.NotNil(s.t, m.Message, "a small message is in its event")
		require.Equal(s.t, fmt.Sprintf("m%d", i+1), m.Message.ID)
		require.Equal(s.t, content, string(m.Message.Content))
	}
}

func contentLarge(s *subject) {
	s.subscribe("s")
	text := `"` + strings.Repeat("0123456789abcdef", 1<<16) + `"`
	s.publish("before")
	s.send(channel.Draft{ID: "large", Content: []byte(text)})
	s.publish("after")
	b := s.fetch("s")
	require.Equal(s.t, []string{"before", "large", "after"}, idsOf(b))
	require.True(s.t, string(b.Messages[1].Content) == text, "the content came back changed")
}

func contentPublishedAt(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	s.batch("c", "d")
	b := s.reads("s", 0, "a", "b", "c", "d")
	for i, m := range b.Messages {
		require.Greater(s.t, m.PublishedAt.Year(), 2000, m.ID)
		if i > 0 {
			require.False(s.t, m.PublishedAt.Before(b.Messages[i-1].PublishedAt), "%s was published before its predecessor", m.ID)
		}
	}
	require.Equal(s.t, b, s.fetch("s"), "the same each time")
}
