package builder_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/assigner"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/callout"
)

// section is a section of docs/callouts.md, with its first example.
var section = regexp.MustCompile("(?s)\n### ([^\n]+)\n[^#]*?```json\n(.*?)```")

// page returns the examples of docs/callouts.md by their headings.
func page(t *testing.T) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("../../../docs/callouts.md")
	require.NoError(t, err)
	examples := map[string][]byte{}
	for _, m := range section.FindAllSubmatch(text, -1) {
		examples[string(m[1])] = m[2]
	}
	require.Len(t, examples, 10)
	return examples
}

// compact returns an example as it is sent.
func compact(t *testing.T, example []byte) string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, json.Compact(&text, example))
	return text.String()
}

func decode[T any](t *testing.T, example []byte) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(example, &v))
	return v
}

// service answers each request with an example, and records the requests.
type service struct {
	url    string
	answer []byte
	kind   string // content type of the answer
	body   []byte
	header http.Header
}

func serve(t *testing.T) *service {
	t.Helper()
	s := &service{kind: "application/json"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.body, _ = io.ReadAll(r.Body)
		s.header = r.Header
		w.Header().Set("Content-Type", s.kind)
		_, _ = w.Write(s.answer)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// ticket is a ticket of the examples.
type ticket struct {
	ID         string    `json:"id"`
	CreateTime time.Time `json:"createTime"`
	matchmaking.Spec
}

func ticketsOf(t *testing.T, given []ticket) (tickets []*matchmaking.Ticket) {
	t.Helper()
	for _, g := range given {
		tickets = append(tickets, &matchmaking.Ticket{ID: g.ID, CreateTime: g.CreateTime, Spec: g.Spec})
	}
	return tickets
}

// match is a match in an answer of a function.
type match struct {
	ID         string
	Teams      [][]string
	Score      float64
	Extensions map[string]json.RawMessage
}

func matchesOf(proposals []matchmaking.Proposal) (matches []match) {
	for _, p := range proposals {
		m := match{ID: p.ID, Score: p.Score, Extensions: p.Extensions}
		for _, team := range p.Teams {
			var ids []string
			for _, ticket := range team {
				ids = append(ids, ticket.ID)
			}
			m.Teams = append(m.Teams, ids)
		}
		matches = append(matches, m)
	}
	return matches
}

// TestPageOfCallouts sends and receives each example of docs/callouts.md.
func TestPageOfCallouts(t *testing.T) {
	t.Parallel()
	examples, log, ctx := page(t), slog.New(slog.DiscardHandler), t.Context()
	s := serve(t)

	asked := decode[struct {
		Profile matchmaking.Profile
		Pools   map[string][]ticket
	}](t, examples["The function is sent"])
	pools := map[string][]*matchmaking.Ticket{}
	for name, given := range asked.Pools {
		pools[name] = ticketsOf(t, given)
	}
	f, err := callout.Function(matchmaking.Definition{Name: "ranked",
		Match: matchmaking.Match{Function: matchmaking.MatchHTTP, URL: s.url}}, log, nil)
	require.NoError(t, err)
	want := decode[struct{ Matches []match }](t, examples["The function answers"]).Matches
	for kind, heading := range map[string]string{
		"application/json":                    "The function answers",
		"application/x-ndjson; charset=utf-8": "The function answers in lines",
	} {
		s.kind, s.answer = kind, examples[heading]
		proposals, err := f.Match(ctx, asked.Profile, pools)
		require.NoError(t, err)
		require.Equal(t, compact(t, examples["The function is sent"]), string(s.body))
		require.Equal(t, "tidemark", s.header.Get("User-Agent"))
		require.Equal(t, want, matchesOf(proposals), kind)
	}

	s.kind, s.answer = "application/json", examples["The evaluator answers"]
	proposals, err := f.Match(ctx, asked.Profile, pools)
	require.Error(t, err, "an answer of another kind")
	require.Empty(t, proposals)
	s.answer = examples["The function answers"]
	proposals, err = f.Match(ctx, asked.Profile, pools)
	require.NoError(t, err)
	e, err := callout.Evaluator(matchmaking.Definition{Name: "ranked",
		Evaluator: matchmaking.Caller{Kind: callout.EvaluatorHTTP, URL: s.url}}, nil)
	require.NoError(t, err)
	s.answer = examples["The evaluator answers"]
	accepted, err := e.Evaluate(ctx, proposals)
	require.NoError(t, err)
	require.Equal(t, compact(t, examples["The evaluator is sent"]), string(s.body))
	require.Equal(t, want[:1], matchesOf(accepted))
}

// TestPageOfWebhooks does the same for the webhook.
func TestPageOfWebhooks(t *testing.T) {
	t.Parallel()
	examples, ctx := page(t), t.Context()
	s := serve(t)
	const secret = "hush"
	hook, err := assigner.New(matchmaking.Definition{
		Name: "ranked", Assigner: matchmaking.AssignBy{Kind: matchmaking.AssignWebhook, URL: s.url, Secret: secret},
	}, nil)
	require.NoError(t, err)
	sent := func(heading, key string) {
		t.Helper()
		require.Equal(t, compact(t, examples[heading]), string(s.body))
		require.Equal(t, key, s.header.Get(assigner.HeaderIdempotencyKey))
		require.NoError(t, assigner.Verifier{Secrets: []string{secret}}.Verify(s.header, s.body))
	}

	asked := decode[struct {
		MatchID    string
		Teams      [][]ticket
		Extensions map[string]json.RawMessage
	}](t, examples["Allocate: the webhook is sent"])
	p := matchmaking.Proposal{ID: asked.MatchID, Extensions: asked.Extensions}
	for _, team := range asked.Teams {
		p.Teams = append(p.Teams, ticketsOf(t, team))
	}
	s.answer = examples["Allocate: the webhook answers"]
	place, err := hook.Allocate(ctx, p)
	require.NoError(t, err)
	sent("Allocate: the webhook is sent", "m-1")
	require.Equal(t, decode[matchmaking.Allocation](t, s.answer), place)
	require.NoError(t, hook.Release(ctx, "m-1", place))
	sent("Release: the webhook is sent", "release-m-1")
	require.NoError(t, hook.Release(ctx, "m-1", matchmaking.Allocation{}))
	sent("Release without an answer", "release-m-1")

	text, err := os.ReadFile("../../../docs/callouts.md")
	require.NoError(t, err)
	headers := regexp.MustCompile(
		"```\nTidemark-Timestamp: ([0-9]+)\nTidemark-Signature: (v1=[0-9a-f]+)\n```").FindSubmatch(text)
	require.NotNil(t, headers)
	seconds, err := strconv.ParseInt(string(headers[1]), 10, 64)
	require.NoError(t, err)
	signed := http.Header{}
	assigner.Sign(signed, secret, time.Unix(seconds, 0), bytes.TrimSpace(examples["Signatures"]))
	require.Equal(t, string(headers[2]), signed.Get(assigner.HeaderSignature))
}
