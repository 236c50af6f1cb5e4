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
		{Name: "clocks are decimal integers at the edges", Run: publishAtEdges},
		{Name: "repeated IDs change nothing", Run: publishRepeated},
		{Name: "a repeated ID with another content is reported", Run: publishDiffering},
		{Name: "a content that is gone isn't compared", Run: publishUnknown},
		{Name: "a canceled publish can be repeated", Run: publishCanceled},
		{Name: "a batch may have a thousand messages", Run: publishThousand},
	}
}

func publishAtEdges(s *testChannel) {
	for i, edge := range []clock.Clock{
		clock.Max, clock.Max - 1, clock.Min, clock.Min + 1, -1, 1 << 52, -(1 << 52),
		99_999_999_999_999, 100_000_000_000_000, -100_000_000_000_001, 999_999_999_999_999, 1 << 31, 1<<31 - 1,
	} {
		at := s.On(longName[:i+1])
		at.StartAt(edge)
		at.Subscribe("s")
		require.Equal(s.T, []channel.Published{{ID: "a", Clock: edge.Next()}}, at.Publish("a"))
		require.Equal(s.T, []channel.Published{
			{ID: "b", Clock: edge.Next().Next()},
			{ID: "a", Clock: edge.Next(), Duplicate: true},
		}, at.Batch("b", "a"))
		b := at.FetchUpTo("s", 1)
		require.Equal(s.T, edge, b.Mark)
		require.Equal(s.T, edge.Next(), b.Through)
		at.CheckMessages(at.Next("s", b, 1), 0, "b")
		require.Equal(s.T, edge.Next().Next(), at.Position().Clock)
	}
}

func publishRepeated(s *testChannel) {
	s.Subscribe("s")
	s.Batch("a", "b")
	before := s.Reads("s", 0, "a", "b")
	parts := []Part{
		channelClock, epoch, subscribers, mark("s"), message(1), message(2), record("a"), record("b"),
	}
	other := []byte(`"another content"`)
	for _, drafts := range [][]channel.Draft{
		{{ID: "a", Content: other}},
		{{ID: "b", Content: other}, {ID: "a", Content: other}, {ID: "b", Content: other}},
	} {
		s.SetLife(ttl/2, parts...)
		for _, p := range s.Send(drafts...) {
			require.True(s.T, p.Differs, p.ID)
		}
		for _, p := range parts {
			require.LessOrEqual(s.T, s.Life(p), ttl/2, "the life of %s", p)
		}
		require.Equal(s.T, before, s.Reads("s", 0, "a", "b"))
	}
}

// publishDiffering repeats contents byte for byte, and with a change.
func publishDiffering(s *testChannel) {
	traced := contentDrafts()
	for i := range traced {
		traced[i].Trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	}
	for i, drafts := range [][]channel.Draft{contentDrafts(), traced} {
		at := s.On(longName[:i+1])
		at.Send(drafts...)
		for i, d := range drafts {
			require.False(s.T, at.Send(channel.Draft{ID: d.ID, Content: d.Content})[0].Differs, "%s", d.Content)
			for _, other := range []string{
				contents[i] + " ", " " + contents[i], `"` + longName + `"`, contents[(i+1)%len(contents)],
			} {
				p := at.Send(channel.Draft{ID: d.ID, Content: []byte(other)})[0]
				require.Equal(s.T, channel.Published{ID: d.ID, Clock: p.Clock, Duplicate: true, Differs: true}, p, other)
			}
		}
	}
	large := `"` + strings.Repeat("0123456789abcdef", 1<<16) + `"`
	for _, sent := range []struct {
		content string
		want    channel.Published
	}{
		{large, channel.Published{ID: "x", Clock: s.At(1), Begun: true}},
		{large, channel.Published{ID: "x", Clock: s.At(1), Duplicate: true}},
		{strings.Replace(large, "f", "F", 1), channel.Published{ID: "x", Clock: s.At(1), Duplicate: true, Differs: true}},
	} {
		got := s.Send(channel.Draft{ID: "x", Content: []byte(sent.content)})
		require.Equal(s.T, []channel.Published{sent.want}, got)
	}
	batch := s.Send(channel.Draft{ID: "y", Content: []byte("1")}, channel.Draft{ID: "y", Content: []byte("1")},
		channel.Draft{ID: "y", Content: []byte("2")})
	require.Equal(s.T, []channel.Published{
		{ID: "y", Clock: s.At(2)},
		{ID: "y", Clock: s.At(2), Duplicate: true},
		{ID: "y", Clock: s.At(2), Duplicate: true, Differs: true},
	}, batch)
}

// publishUnknown repeats the ID of a message that was trimmed.
func publishUnknown(s *testChannel) {
	s.Policy.MaxMessages = 1
	s.Batch("a", "b")
	p := s.Send(channel.Draft{ID: "a", Content: []byte(`"another content"`)})
	require.Equal(s.T, []channel.Published{{ID: "a", Clock: s.At(1), Duplicate: true}}, p)
}

// publishCanceled cancels publishes at any moment, and repeats each until it succeeds.
func publishCanceled(s *testChannel) {
	s.Subscribe("s")
	var all []string
	for range 20 {
		ids := []string{}
		for _, id := range numbered(3) {
			ids = append(ids, longName[:len(all)+1]+"."+id)
		}
		ctx, cancel := context.WithCancel(s.Ctx())
		done := make(chan struct{})
		go func() {
			defer close(done)
			cancel()
		}()
		_, _ = s.TryPublish(ctx, ids...)
		<-done
		for i, p := range s.Batch(ids...) {
			require.Equal(s.T, s.At(len(all)+i+1), p.Clock, "the clock of %s after a canceled first try", p.ID)
		}
		all = append(all, ids...)
	}
	s.Reads("s", 0, all...)
}

func publishThousand(s *testChannel) {
	s.Policy.MaxMessages = 5000
	s.Subscribe("s")
	ids := numbered(1000)
	s.Batch(ids...)
	for _, p := range s.Batch(ids...) {
		require.True(s.T, p.Duplicate, p.ID)
	}
	s.Reads("s", 0, ids...)
}

func contentCases() []testCase {
	return []testCase{
		{Name: "contents are kept byte for byte", Run: contentKept},
		{Name: "events have contents byte for byte", Run: contentNotified},
		{Name: "a content of another type than JSON may be any bytes", Run: contentTyped},
		{Name: "a repeated ID with another content type is reported", Run: contentTypeDiffering},
		{Name: "a content may have a megabyte", Run: contentLarge},
		{Name: "messages have their publish time", Run: contentPublishedAt},
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

func contentKept(s *testChannel) {
	single := s.On("single")
	s.Subscribe("s")
	single.Subscribe("s")
	s.Send(contentDrafts()...)
	for _, d := range contentDrafts() {
		single.Send(d)
	}
	for _, sub := range []*testChannel{s, single} {
		b := sub.Fetch("s")
		require.Len(s.T, b.Messages, len(contents))
		for i, m := range b.Messages {
			require.Equal(s.T, fmt.Sprintf("m%d", i+1), m.ID)
			require.Equal(s.T, contents[i], string(m.Content))
		}
	}
}

func contentNotified(s *testChannel) {
	events := s.Listen()
	events.Confirmed()
	for _, draft := range contentDrafts() {
		s.Send(draft)
	}
	for i, content := range contents {
		m := events.Published(s.At(i + 1))
		require.NotNil(s.T, m.Message, "a small message is in its event")
		require.Equal(s.T, fmt.Sprintf("m%d", i+1), m.Message.ID)
		require.Equal(s.T, content, string(m.Message.Content))
	}
}

func contentLarge(s *testChannel) {
	s.Subscribe("s")
	text := `"` + strings.Repeat("0123456789abcdef", 1<<16) + `"`
	s.Publish("before")
	s.Send(channel.Draft{ID: "large", Content: []byte(text)})
	s.Publish("after")
	b := s.Fetch("s")
	require.Equal(s.T, []string{"before", "large", "after"}, idsOf(b))
	require.True(s.T, string(b.Messages[1].Content) == text, "the content came back changed")
}

func contentPublishedAt(s *testChannel) {
	s.Subscribe("s")
	s.Publish("a", "b")
	s.Batch("c", "d")
	b := s.Reads("s", 0, "a", "b", "c", "d")
	for i, m := range b.Messages {
		require.Greater(s.T, m.PublishedAt.Year(), 2000, m.ID)
		if i > 0 {
			require.False(s.T, m.PublishedAt.Before(b.Messages[i-1].PublishedAt),
				"%s was published before its predecessor", m.ID)
		}
	}
	require.Equal(s.T, b, s.Fetch("s"), "the same each time")
}

// rawContents are contents of messages that aren't JSON, which are easily changed or misread on the way.
var rawContents = []string{
	"", "x", " ", "\n", "\x00", "\xff\xfe\x00\x01", "plain text", "null", "1", `{"a":1}`, `,"at":5}`, `,"at":5`, `,"at":`,
	`}`, `"`, `{"id":"other","write":"AQIDBAUGBwg","content":1,"at":5}`, `","content":1,"at":6}`, `"content":`,
	`","type":"a/b","content":`,
	`1,"at":1700000000000}`, "!s", "x 1 !s", " #", "\r\n+OK\r\n", strings.Repeat("\xff", 400),
	strings.Repeat(`","content":`, 60), strings.Repeat(`,"at":5}`, 60),
}

// longType is as long as a content type may be.
var longType = "a/" + strings.Repeat("b", channel.MaxContentTypeBytes-2)

// rawDrafts returns messages with rawContents, the IDs, types and traces of which are short and long.
func rawDrafts() []channel.Draft {
	drafts := make([]channel.Draft, len(rawContents))
	for i, content := range rawContents {
		drafts[i] = channel.Draft{ID: fmt.Sprintf("m%d", i+1), ContentType: "text/plain; charset=utf-8",
			Content: []byte(content)}
		if i%2 == 1 {
			drafts[i].ID = fmt.Sprintf("%0*d", channel.MaxNameBytes, i+1)
			drafts[i].ContentType, drafts[i].Trace = longType, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		}
	}
	return drafts
}

// contentTyped publishes messages that aren't JSON alone and in a batch among JSON, and reads them in fetches, in events
// and by their receipts.
func contentTyped(s *testChannel) {
	s.Subscribe("s")
	events := s.Listen()
	events.Confirmed()
	var all []channel.Draft
	for _, d := range rawDrafts() {
		require.Equal(s.T, []channel.Published{{ID: d.ID, Clock: s.At(len(all) + 1), Begun: false}}, s.Send(d))
		e := events.Published(s.At(len(all) + 1))
		require.NotNil(s.T, e.Message, "a small message is in its event")
		s.isDraft(&d, e.Message)
		all = append(all, d)
	}
	batch := []channel.Draft{{ID: "json", Content: []byte(`{"a":1}`)}}
	for _, d := range rawDrafts() {
		d.ID = "b" + d.ID[1:]
		batch = append(batch, d)
	}
	batch = append(batch, channel.Draft{ID: "large", ContentType: "application/octet-stream",
		Content: []byte(strings.Repeat("\x00\"}\xff,", 1<<18))}, channel.Draft{ID: "last", Content: []byte(`[]`)})
	s.Send(batch...)
	all = append(all, batch...)
	b := s.Fetch("s")
	require.Len(s.T, b.Messages, len(all))
	require.Zero(s.T, b.Damaged)
	for i := range all {
		s.isDraft(&all[i], &b.Messages[i])
	}
	for i := range all {
		next := s.FetchUpTo("s", 1)
		require.Len(s.T, next.Messages, 1)
		s.isDraft(&all[i], &next.Messages[0])
		s.Ack("s", next)
	}
	s.Reads("s", 0)
}

// isDraft checks that a message is the one of a draft.
func (s *testChannel) isDraft(d *channel.Draft, m *channel.Message) {
	s.T.Helper()
	require.Equal(s.T, d.ID, m.ID)
	require.Equal(s.T, d.ContentType, m.ContentType, d.ID)
	require.True(s.T, string(d.Content) == string(m.Content), "the content of %s came back as %.100q", d.ID, m.Content)
	require.Equal(s.T, d.Trace, m.Trace)
	require.Greater(s.T, m.PublishedAt.Year(), 2000)
	require.False(s.T, m.Write.IsZero())
}

// contentTypeDiffering repeats messages with the same bytes, as another type and as JSON, and with other bytes.
func contentTypeDiffering(s *testChannel) {
	drafts := append(rawDrafts(), channel.Draft{ID: "json", Content: []byte("1")})
	s.Send(drafts...)
	for i, d := range drafts {
		same := channel.Published{ID: d.ID, Clock: s.At(i + 1), Duplicate: true}
		differs := same
		differs.Differs = true
		again := channel.Draft{ID: d.ID, ContentType: d.ContentType, Content: d.Content} // without its trace
		require.Equal(s.T, []channel.Published{same}, s.Send(again), "%.40q", d.Content)
		others := []channel.Draft{again, again, again, again}
		others[0].ContentType = "text/html"
		others[1].ContentType = strings.TrimSuffix(d.ContentType+"x", "xx")
		others[2].Content = []byte(string(d.Content) + " ")
		others[3].Content = []byte(`","type":"a/b","content":` + string(d.Content))
		if d.ContentType != "" {
			asJSON := again
			asJSON.ContentType = ""
			others = append(others, asJSON)
		}
		for _, other := range others {
			if other.ContentType == d.ContentType && string(other.Content) == string(d.Content) {
				continue
			}
			require.Equal(s.T, []channel.Published{differs}, s.Send(other), "%s %.40q", other.ContentType, other.Content)
		}
	}
}
