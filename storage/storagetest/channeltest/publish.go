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
		{
			name: "a new channel's first message gets clock 1", run: publishFirst,
			notice: "a publish to a name that was never used fails, or its clocks don't count from 1",
		},
		{
			name: "each message gets the next clock", ring: true, run: publishSuccessive,
			notice: "clocks are skipped, given twice or run backwards",
		},
		{
			name: "a repeated ID gets the first one's clock", ring: true, run: publishRepeated,
			notice: "a publisher's retry makes a second message, or is answered with a clock where it doesn't stand",
		},
		{
			name: "a repeated ID changes nothing", run: publishRepeatedChangesNothing,
			notice: "a retry replaces the first message, or prolongs lives though nothing was written",
		},
		{
			name: "an ID counts on its own channel only", run: publishSameIDElsewhere,
			notice: "a message is lost because another channel has had one of the same ID",
		},
		{
			name: "an ID counts until its record expires", ring: true, run: publishAfterRecord,
			notice: "an ID can never be used again, or a used one breaks reading",
		},
		{
			name: "a message's ID may be any name", run: publishNames,
			notice: "messages with long or unusual IDs are lost or mixed up",
		},
		{
			name: "contents are copied", run: publishCopies,
			notice: "a message changes after it was published",
		},
		{
			name: "a publish that was given up can be repeated", run: publishGivenUp,
			notice: "after a timeout, a retry of the same messages doubles, drops or half-writes them",
		},
	}
}

func publishFirst(s *subject) {
	published := s.publish("a")
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: 1}}, published)
	require.Equal(s.t, clock.Clock(1), s.position().Clock)
	require.Empty(s.t, s.describe().Subscribers)
}

func publishSuccessive(s *subject) {
	s.subscribe("s")
	for n, id := range numbered(8) {
		published := s.publish(id)
		require.Equal(s.t, []channel.Published{{ID: id, Clock: s.at(n + 1)}}, published)
		require.Equal(s.t, s.at(n+1), s.position().Clock, "the channel's clock is the last one given out")
	}
	b := s.reads("s", 0, numbered(8)...)
	for i, m := range b.Messages {
		require.Equal(s.t, s.at(i+1), m.Clock, "the clock that the publish was answered with")
	}
}

func publishRepeated(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: s.at(1), Duplicate: true}}, s.publish("a"))
	require.Equal(s.t, []channel.Published{{ID: "b", Clock: s.at(2), Duplicate: true}}, s.publish("b"))
	require.Equal(s.t, []channel.Published{{ID: "c", Clock: s.at(3)}}, s.publish("c"))
	s.ack("s", s.reads("s", 0, "a", "b", "c"))
	require.True(s.t, s.publish("a")[0].Duplicate, "an ID counts after its message was acknowledged too")
	s.reads("s", 0)
}

func publishRepeatedChangesNothing(s *subject) {
	s.subscribe("s")
	s.publish("a")
	before := s.reads("s", 0, "a")
	parts := []Part{clockPart, epochPart, subscribersPart, mark("s"), message(1), record("a")}
	s.setLife(ttl/2, parts...)

	again := s.send(channel.Draft{ID: "a", Content: []byte(`"another content"`)})
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: 1, Duplicate: true}}, again)
	for _, p := range parts {
		require.LessOrEqual(s.t, s.life(p), ttl/2, "the life of %s", p)
	}
	require.Equal(s.t, before, s.reads("s", 0, "a"))
}

func publishSameIDElsewhere(s *subject) {
	other := s.on("other")
	s.publish("a", "b")
	require.Equal(s.t, []channel.Published{{ID: "b", Clock: 1}}, other.publish("b"))
	other.subscribeFrom("s", channel.From{Start: channel.StartEarliest})
	other.reads("s", 0, "b")
}

func publishAfterRecord(s *subject) {
	s.subscribe("s")
	s.publish("a", "b")
	s.expire(record("a"))
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: s.at(3)}}, s.publish("a"))
	require.Equal(s.t, []channel.Published{{ID: "a", Clock: s.at(3), Duplicate: true}}, s.publish("a"))
	s.reads("s", 0, "a", "b", "a")
}

func publishNames(s *subject) {
	ids := []string{"0", "a:b", "a.b", "a-b", "A_b", "clock", "r.s", "m.1", "mid.0", longName}
	s.subscribe("s")
	s.publish(ids...)
	for _, p := range s.publish(ids...) {
		require.True(s.t, p.Duplicate, p.ID)
	}
	s.reads("s", 0, ids...)
}

func publishCopies(s *subject) {
	s.subscribe("s")
	d := draft("a")
	s.send(d)
	clear(d.Content)
	s.reads("s", 0, "a")
}

// publishGivenUp cancels publishes at any moment, and repeats each until it is answered.
func publishGivenUp(s *subject) {
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
		_, _ = s.store.Publish(ctx, channel.PublishRequest{Channel: s.channel, Drafts: draftsOf(ids...), Policy: s.policy})
		<-done
		for i, p := range s.batch(ids...) {
			require.Equal(s.t, s.at(len(all)+i+1), p.Clock, "the clock of %s after a first try was given up", p.ID)
		}
		all = append(all, ids...)
	}
	s.reads("s", 0, all...)
}

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

func contentCases() []testCase {
	return []testCase{
		{
			name: "contents are kept byte for byte", run: contentKept,
			notice: "a content comes back formatted, escaped, rounded, cut off or with another message's parts",
		},
		{
			name: "notifications carry contents byte for byte", run: contentNotified,
			notice: "a waiting subscriber gets another content than one that fetches",
		},
		{
			name: "a content may have a megabyte", run: contentLarge,
			notice: "a large message is refused or damaged",
		},
		{
			name: "messages tell when they were published", run: contentPublishedAt,
			notice: "publishedAt is missing or runs backwards",
		},
	}
}

// contents are JSON texts that are easily changed on the way, or taken for something else.
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
		require.NotNil(s.t, m.Message, "a small message comes with its notification")
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
			require.False(s.t, m.PublishedAt.Before(b.Messages[i-1].PublishedAt), "%s was published before the one before it", m.ID)
		}
	}
	require.Equal(s.t, b, s.fetch("s"), "the same each time")
}
