package access_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// TestGrantsStayTheSame: grants are written as they were read, with empty and omitted members.
func TestGrantsStayTheSame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`[]`,
		`[{"actions":["publish","subscribe","describe","ticket","queue","read","write","admin"]}]`,
		`[{"actions":["publish"],"channels":[],"subscribers":["{sub}","a*"],"queues":["*"],"owners":[],"records":["sessions/{sub}"]}]`,
		`[{"actions":["publish"],"channels":["<&>\"é"]}]`,
	} {
		written, err := json.Marshal(grants(t, text))
		require.NoError(t, err)
		require.JSONEq(t, text, string(written))
	}
}

// TestDocumentation parses the grants of the page on security.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```json\n(\\[.*?)```").FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		require.NotEmpty(t, grants(t, example[1]))
	}
}

// TestForeignPatterns: a pattern of a grant that is written for another language of patterns is told from one that some
// name matches. It is still read, as that of a key that exists.
func TestForeignPatterns(t *testing.T) {
	t.Parallel()
	const noName = `matches nothing, since no name `
	for pattern, want := range map[string]string{
		`"channels":["a","chat\\..*"]`: "grants[0].channels[1]: \"chat\\\\..*\" " + noName + `has '\\'`,
		`"channels":["chat[.].*"]`:     noName + `has '['`,
		`"channels":["^chat"]`:         noName + `begins with '^'`,
		`"channels":[".*"]`:            noName + `begins with '.'`,
		`"channels":["chat.+"]`:        noName + `has '+'`,
		`"channels":["inbox.${sub}"]`:  noName + `has '$'`,
		`"subscribers":["{sub}/*"]`:    noName + `has '/'`,
		`"queues":["(duel|cup)"]`:      noName + `begins with '(': a grant has no regular expression, but * for any text`,
		`"channels":["chat.**"]`:       `"chat.**" has two stars in a row: one matches any text, dots`,
		`"records":["locks/**"]`:       `grants[0].records[0]: "locks/**" has two stars`,

		`"channels":["*","chat.*","*.{sub}","{name}:*.x-y_z"],"queues":["duel*"],"subscribers":["{sub}","{sub}:*"]`: "",
		`"records":["sessions/ann%2F*","locks"],"owners":["auth0|{sub}","^(.+)$"]`:                                  "",
	} {
		g := grants(t, `[{"actions":["publish"],`+pattern+`}]`)
		err := g.CheckPatterns()
		if want == "" {
			require.NoError(t, err, pattern)
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

func TestBadGrants(t *testing.T) {
	t.Parallel()
	list := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	with := func(member string) string { return `[{"actions":["publish"],` + member + `}]` }
	tests := []struct{ text, want string }{
		{``, "unexpected end"},
		{`null`, "must be an array"},
		{`{}`, "must be an array"},
		{`"publish"`, "must be an array"},
		{`[1]`, "grants[0]: must be an object"},
		{`[null]`, "grants[0]: must be an object"},
		{`[{}]`, "grants[0].actions: is missing or empty"},
		{`[{"actions":[]}]`, "grants[0].actions: is missing or empty"},
		{`[{"actions":["*"]}]`, `grants[0].actions[0]: "*" isn't an action`},
		{`[{"actions":["any"]}]`, `"any" isn't an action`},
		{`[{"actions":["Publish"]}]`, `"Publish" isn't an action`},
		{`[{"actions":["publish "]}]`, `isn't an action`},
		{`[{"actions":"publish"}]`, "grants[0].actions: must be an array"},
		{`[{"actions":["publish"],"actions":["admin"]}]`, "grants[0].actions: duplicate member"},
		{`[{"actions":["publish"],"Channels":[]}]`,
			"grants[0].Channels: unknown member (known: actions, channels, subscribers, queues, owners, records)"},
		{`[{"actions":["publish"]}] []`, "invalid JSON"},
		{with(`"channels":null`), "grants[0].channels: must be an array"},
		{with(`"channels":[null]`), "grants[0].channels[0]: must be a string"},
		{with(`"channels":"*"`), "grants[0].channels: must be an array"},
		{with(`"channels":[["*"]]`), "grants[0].channels[0]: must be a string"},
		{with(`"channels":[""]`), "grants[0].channels[0]: is empty"},
		{with(`"owners":["{}"]`), "belongs to no {sub} or {capture}"},
		{with(`"owners":["{sub"]`), "belongs to no"},
		{with(`"owners":["{{sub}}"]`), "belongs to no"},
		{with(`"owners":["{su*b}"]`), "belongs to no"},
		{with(`"queues":["` + strings.Repeat("a", 257) + `"]`), "has 257 bytes, at most 256"},
		{with(`"queues":` + list(65, `"a"`)), "grants[0]: a list of 65 patterns, at most 64"},
		{list(65, `{"actions":["publish"]}`), "65 of them, at most 64"},
		{with(`"channels":["` + strings.Repeat(" ", access.MaxGrantsBytes) + `"]`), "at most 16384 are allowed"},
		{strings.Repeat("[", 10_000), ""},
		{"[{\"actions\":[\"publish\"],\"channels\":[\"\xff\"]}]", "invalid UTF-8"},
	}
	for _, tt := range tests {
		_, err := access.ParseGrants([]byte(tt.text))
		require.ErrorContains(t, err, tt.want, "%.100s", tt.text)
		require.Less(t, len(err.Error()), 500)
	}
}

// FuzzGrants: parsed grants are the same after they are written and parsed again, and can be matched.
func FuzzGrants(f *testing.F) {
	f.Add([]byte(`[{"actions":["publish"],"channels":["a*{sub}*{room}{1}"],"owners":[]}]`), "ann", "a.b")
	f.Fuzz(func(t *testing.T, text []byte, subject, channel string) {
		parsed, err := access.ParseGrants(text)
		if err != nil {
			return
		}
		written, err := json.Marshal(parsed)
		require.NoError(t, err)
		again, err := access.ParseGrants(written)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(parsed), fmt.Sprint(again))
		p := &access.Principal{Kind: access.User, Subject: subject, Grants: parsed}
		g := newGuard(t, access.Options{Rules: []access.ChannelRule{{Pattern: "(?P<room>.*)[.](.*)"}}})
		_ = g.Check(t.Context(), p, access.Publish, access.Resource{Channel: channel})
	})
}
