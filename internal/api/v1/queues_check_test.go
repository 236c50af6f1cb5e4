package v1_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestCheckQueue: all faults of a definition are listed with their places, and nothing is stored.
func TestCheckQueue(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues()).OnAdmin()
	check := func(text string) (found []string) {
		t.Helper()
		got := servertest.Decode[wire.CheckedQueue](h.Do("POST", "/v1/queues/new/check", text).With(200))
		require.Equal(t, len(got.Faults) == 0, got.Valid)
		for _, f := range got.Faults {
			require.NotEmpty(t, f.Detail)
			found = append(found, fmt.Sprintf("%s %d:%d", f.Field, f.Line, f.Column))
		}
		return found
	}
	require.Empty(t, check(`{}`))
	require.Equal(t, []string{"/match/teams 2:21", "/match/teamSize 3:15", "/maxTickets 4:17"},
		check("{\n \"match\": {\"teams\": 0,\n  \"teamSize\": -1},\n \"maxTickets\" : -3}"))
	require.Equal(t, []string{"/match/teams 1:20", "/nothing 1:35", "/ticketTTL 1:51"},
		check(`{"match": {"teams":"x"},"nothing":1, "ticketTTL": 5}`), "one of each member")
	require.Equal(t, []string{"/assigner/url 1:13"}, check(`{"assigner":{"kind":"webhook"}}`), "it is missing")
	require.Equal(t, []string{"/a 2:1"}, check("{\n\"a\"}"), "it has no value")
	require.Equal(t, []string{" 1:1"}, check(``))
	require.Len(t, check(`{"match":{"widen":[`+repeated(`{}`, 60)+`]}}`), 100)
	require.Equal(t, []string{" 1:1"}, func() []string {
		got := servertest.Decode[wire.CheckedQueue](h.Do("POST", "/v1/queues/duel/check", "{}"))
		require.Contains(t, got.Faults[0].Detail, "configuration")
		return []string{fmt.Sprintf("%s %d:%d", got.Faults[0].Field, got.Faults[0].Line, got.Faults[0].Column)}
	}())
	h.Do("POST", "/v1/queues/-x/check", "{}").Problem(400, fault.SlugInvalidQueue)
	h.Do("GET", "/v1/queues/new", "").Problem(404, fault.SlugNoQueue)
}

func repeated(text string, n int) (all string) {
	for i := range n {
		if i > 0 {
			all += ","
		}
		all += text
	}
	return all
}

// TestRecentMatches: the last matches of a queue are listed.
func TestRecentMatches(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	h.Do("GET", "/v1/queues/duel/matches", "").Like(200, `{"matches":[]}`)
	var last string
	for range 2 {
		first := servertest.Decode[client.CreatedTicket](h.Do("POST", "/v1/tickets", `{"queue":"duel"}`))
		h.Do("POST", "/v1/tickets", `{"queue":"duel"}`)
		for last = ""; last == ""; {
			if ticket := servertest.Decode[wire.Ticket](h.Do("GET", "/v1/tickets/"+first.ID, "")); ticket.MatchID != "" {
				last = ticket.MatchID
			}
		}
	}
	all := servertest.Decode[wire.RecentMatches](h.Do("GET", "/v1/queues/duel/matches", "")).Matches
	require.Len(t, all, 2)
	require.Equal(t, last, all[0].ID)
	require.Len(t, all[0].WaitMillis, 2)
	require.Equal(t, 200, h.Do("GET", "/v1/matches/"+all[1].ID, "").Status)
	require.Len(t, servertest.Decode[wire.RecentMatches](h.Do("GET", "/v1/queues/duel/matches?limit=1", "")).Matches, 1)
	h.Do("GET", "/v1/queues/duel/matches?limit=0", "").Problem(400, fault.SlugInvalidQuery)
	h.Do("GET", "/v1/queues/none/matches", "").Problem(404, fault.SlugNoQueue)
}

// TestSimulateQueue: tickets that wait and that were matched are matched again by two definitions, and stay as they
// are.
func TestSimulateQueue(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues()).OnAdmin()
	h.Do("PUT", "/v1/queues/q", `{"match":{"function":"criteria"}}`).With(201)
	const skill = `{"queue":"q","statistics":[{"name":"s","value":%d}],"criteria":[{"name":"s","minValue":%d,"maxValue":%d}]}`
	for _, s := range []int{100, 200, 300, 300, 900} { // the harness matches who comes first, and a simulation doesn't
		h.Do("POST", "/v1/tickets", fmt.Sprintf(skill, s, s-10, s+10)).With(201)
	}
	require.Eventually(t, func() bool {
		return servertest.Decode[client.QueueDescription](h.Do("GET", "/v1/queues/q", "")).Tickets.MatchFound == 4
	}, time.Minute, 5*time.Millisecond)
	got := servertest.Decode[wire.Simulation](h.Do("POST", "/v1/queues/q/simulate",
		`{"match":{"function":"criteria","weights":{"s":1},"widen":[{"after":"1s","by":{"s":100}}]}}`).With(200))
	require.Equal(t, 5, got.Recorded)
	require.Equal(t, 1, got.Waiting)
	require.Equal(t, []int{5, 1, 2, 3}, []int{got.Today.Tickets, got.Today.Matches, got.Today.Matched, got.Today.Unmatched})
	require.Equal(t, []int{5, 2, 4, 1},
		[]int{got.Changed.Tickets, got.Changed.Matches, got.Changed.Matched, got.Changed.Unmatched})
	require.InDelta(t, 100, got.Changed.Fitness.Max, 0.001)
	require.GreaterOrEqual(t, got.Changed.Waits.Max, int64(1000))
	require.Equal(t, 1, servertest.Decode[client.QueueDescription](h.Do("GET", "/v1/queues/q", "")).Tickets.Searching)
	h.Do("POST", "/v1/queues/q/simulate", `{"match":{"function":"http","url":"http://127.0.0.1:1"}}`).Problem(400,
		fault.SlugInvalidQueue)
	h.Do("POST", "/v1/queues/q/simulate", `{"match":1}`).Problem(400, fault.SlugInvalidQueue)
	h.Do("POST", "/v1/queues/none/simulate", `{}`).Problem(404, fault.SlugNoQueue)
}
