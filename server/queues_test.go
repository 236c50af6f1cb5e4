package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

func TestQueues(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	names := func() (names []string) {
		got := h.do("GET", "/v1/queues", "")
		require.NotContains(t, string(got.body), "hush")
		for _, q := range decode[wire.Queues](got).Queues {
			names = append(names, q.Name)
		}
		return names
	}
	require.Equal(t, []string{"default", "duel"}, names())
	require.Equal(t, 2, decode[wire.Info](h.do("GET", "/v1/info", "")).Queues)

	const definition = `{"match":{"teams":3},"assigner":{"kind":"webhook","url":"http://user:pass@127.0.0.1:1/x?token=abc123","secret":"hush"}}`
	for _, status := range []int{http.StatusCreated, http.StatusOK} {
		got := h.do("PUT", "/v1/queues/trio", definition)
		require.Equal(t, status, got.status, "%s", got.body)
		q := decode[wire.Queue](got)
		require.Equal(t, "trio", q.Name)
		require.Contains(t, string(q.Definition), `"teams":3,"teamSize":1`)
		require.Contains(t, string(q.Definition), `"ticketTTL":"10m0s"`)
		for _, secret := range []string{"hush", "pass", "abc123"} {
			require.NotContains(t, string(got.body), secret)
		}
	}
	require.Equal(t, []string{"default", "duel", "trio"}, names())

	// What is shown can be put again, but the secrets in it stay with their queue.
	shown := decode[wire.Queue](h.do("GET", "/v1/queues/trio", ""))
	require.Contains(t, string(shown.Definition), `"secret":"xxxxx"`)
	require.Contains(t, string(shown.Definition), `//user:xxxxx@127.0.0.1:1/x?token=xxxxx"`)
	require.Equal(t, http.StatusOK, h.do("PUT", "/v1/queues/trio", string(shown.Definition)).status)
	refused := h.do("PUT", "/v1/queues/copy", string(shown.Definition))
	refused.problem(400, fault.SlugInvalidQueue)
	require.Equal(t, "/assigner/url", decode[wire.Problem](refused).Field)
	own := strings.NewReplacer("user:xxxxx@", "", "?token=xxxxx", "", `"xxxxx"`, `"own"`).Replace(string(shown.Definition))
	require.Equal(t, http.StatusCreated, h.do("PUT", "/v1/queues/copy", own).status)
	for range 2 {
		h.do("DELETE", "/v1/queues/trio", "").is(204, "")
		h.do("DELETE", "/v1/queues/copy", "").is(204, "")
	}
	require.Equal(t, []string{"default", "duel"}, names())
	h.do("GET", "/v1/queues/trio", "").problem(404, fault.SlugNoQueue)
}

func TestDescribeQueue(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	describe := func() wire.QueueDescription {
		got := h.do("GET", "/v1/queues/duel", "")
		require.Equal(t, "no-store", got.header.Get("Cache-Control"))
		require.NotContains(t, string(got.body), "hush")
		return decode[wire.QueueDescription](got)
	}
	d := describe()
	require.Equal(t, wire.QueueDescription{Queue: d.Queue, Configured: true}, d)
	require.False(t, decode[wire.QueueDescription](h.do("GET", "/v1/queues/default", "")).Configured)

	h.create(`{"queue":"duel","id":"ann"}`)
	h.do("DELETE", "/v1/tickets/ann", "")
	h.create(`{"queue":"duel","id":"bob"}`)
	require.Eventually(t, func() bool { return describe().OldestWaitMillis > 0 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, describe().Tickets.Searching+describe().Tickets.Pending)
	h.assignment(h.create(`{"queue":"duel","id":"carl"}`))
	require.Eventually(t, func() bool { return describe().Outgoing == 0 }, time.Minute, time.Millisecond)
	d = describe()
	require.Equal(t, wire.TicketCounts{MatchFound: 2, Cancelled: 1}, d.Tickets)
	require.Zero(t, d.OldestWaitMillis)
	require.Positive(t, d.MatchRate)
	require.NotNil(t, d.Waits)
	require.GreaterOrEqual(t, d.Waits.P99, d.Waits.P50)
	require.Zero(t, d.Conflicts)
}

// TestDefinitionsAreThoseOfTheContract puts a queue with everything there is, and reads it again.
func TestDefinitionsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	const definition = `{
		"match": {"function": "criteria", "teams": 2, "teamSize": 3, "acceptance": "one-sided", "weights": {"skill": 0.75},
			"widen": [{"after": "5s", "by": {"skill": 100}}], "url": "", "timeout": "1s", "debounce": "1ms"},
		"profile": {"name": "p", "pools": [{"name": "all",
			"doubleRangeFilters": [{"doubleArg": "level", "min": 1, "max": 2, "exclude": "MAX"}],
			"stringEqualsFilters": [{"stringArg": "map", "value": "harbor"}], "tagPresentFilters": [{"tag": "eu"}],
			"createdBefore": "2030-01-01T00:00:00Z", "createdAfter": "2020-01-01T00:00:00Z"}]},
		"evaluator": {"kind": "http", "url": "http://127.0.0.1:1/", "timeout": "2s"},
		"assigner": {"kind": "agones", "connection": "", "url": "http://127.0.0.1:1/", "secret": "", "secretFile": "", "timeout": "3s",
			"namespace": "games", "selector": {"fleet": "duel"}, "tokenFile": ""},
		"ticketTTL": "1m0s", "pendingTimeout": "10s", "assignmentTTL": "20s", "heartbeat": "1s", "teammates": true,
		"maxTickets": 7, "maxTicketBytes": 99}`
	got := h.do("PUT", "/v1/queues/q", definition)
	require.Equal(t, http.StatusCreated, got.status, "%s", got.body)
	require.JSONEq(t, definition, string(decode[wire.Queue](got).Definition))
}
