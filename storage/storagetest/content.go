package storagetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

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
