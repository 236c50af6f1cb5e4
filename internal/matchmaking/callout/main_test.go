package callout

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(collected{m}) }

// collected collects functions and evaluators as garbage at the end of the tests: none of their connections may remain.
type collected struct{ *testing.M }

// Run runs the tests.
func (m collected) Run() int {
	defer runtime.GC()
	return m.M.Run()
}

const generous = matchmaking.Duration(time.Minute)

// serve responds with handle for the duration of the test.
func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

// answer returns a handler with a constant response.
func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// function returns a match function of the queue duel, with two teams.
func function(t *testing.T, m matchmaking.Match) matchmaking.MatchFunction {
	t.Helper()
	if m.Timeout == 0 {
		m.Timeout = generous
	}
	f, err := Function(matchmaking.Definition{Name: "duel", Match: m}, slog.New(slog.DiscardHandler), nil)
	require.NoError(t, err)
	return f
}

// evaluatorOf returns an evaluator of the queue duel.
func evaluatorOf(t *testing.T, c matchmaking.Caller) matchmaking.Evaluator {
	t.Helper()
	if c.Timeout == 0 {
		c.Timeout = generous
	}
	e, err := Evaluator(matchmaking.Definition{Name: "duel", Evaluator: c}, nil)
	require.NoError(t, err)
	return e
}

func ticketsNamed(ids ...string) []*matchmaking.Ticket {
	tickets := make([]*matchmaking.Ticket, len(ids))
	for i, id := range ids {
		tickets[i] = &matchmaking.Ticket{ID: id, CreateTime: time.Unix(int64(i), 0).UTC()}
	}
	return tickets
}

// pools returns two pools: one with tickets a, b and c, one with b and d.
func pools() map[string][]*matchmaking.Ticket {
	all := ticketsNamed("a", "b", "c", "d")
	return map[string][]*matchmaking.Ticket{"first": all[:3], "second": {all[1], all[3]}}
}

// teamsOf returns the IDs of a proposal's tickets, by team.
func teamsOf(p matchmaking.Proposal) [][]string {
	teams := make([][]string, len(p.Teams))
	for i, team := range p.Teams {
		for _, t := range team {
			teams[i] = append(teams[i], t.ID)
		}
	}
	return teams
}

// proposed3 returns three proposals. The second shares a ticket with each of the others.
func proposed3() []matchmaking.Proposal {
	t := ticketsNamed("a", "b", "c", "d")
	return []matchmaking.Proposal{
		{ID: "m1", Score: 1, Teams: [][]*matchmaking.Ticket{{t[0]}, {t[1]}}},
		{ID: "m2", Score: 2.5, Teams: [][]*matchmaking.Ticket{{t[1]}, {t[2]}}},
		{ID: "m3", Score: -3, Teams: [][]*matchmaking.Ticket{{t[2]}, {t[3]}}},
	}
}

func TestDefinitionsThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for _, c := range []struct {
		match matchmaking.Match
		want  string
	}{
		{matchmaking.Match{Function: matchmaking.MatchHTTP}, "match.url: missing URL"},
		{matchmaking.Match{Function: matchmaking.MatchGRPC, URL: "games:9000"},
			`match.url: "games:9000" is not an http:// or https:// URL`},
		{matchmaking.Match{Function: matchmaking.MatchCriteria, URL: "http://h"},
			`match.function: "criteria" is not http or grpc`},
	} {
		_, err := Function(matchmaking.Definition{Match: c.match}, log, nil)
		require.EqualError(t, err, c.want)
	}
	for _, c := range []struct {
		evaluator matchmaking.Caller
		want      string
	}{
		{matchmaking.Caller{Kind: EvaluatorHTTP}, "evaluator.url: missing URL"},
		{matchmaking.Caller{Kind: EvaluatorGRPC, URL: "grpc://h"},
			`evaluator.url: "grpc://h" is not an http:// or https:// URL`},
		{matchmaking.Caller{Kind: "decollide", URL: "http://h"}, `evaluator.kind: "decollide" is not http or grpc`},
	} {
		_, err := Evaluator(matchmaking.Definition{Evaluator: c.evaluator}, nil)
		require.EqualError(t, err, c.want)
	}
}
