package matchmaking_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// define parses a definition.
func define(t *testing.T, name, text string) matchmaking.Definition {
	t.Helper()
	d, err := matchmaking.ParseDefinition(name, []byte(text))
	require.NoError(t, err)
	return d
}

func TestDefinitionDefaults(t *testing.T) {
	t.Parallel()
	d := define(t, "duel", `{}`)
	require.Equal(t, matchmaking.Definition{
		Name: "duel",
		Match: matchmaking.Match{
			Function: "first-come", Teams: 2, TeamSize: 1, Acceptance: "mutual",
			Timeout: matchmaking.Duration(5 * time.Second), Debounce: matchmaking.Duration(5 * time.Millisecond),
			FetchLimit: 10_000,
		},
		Evaluator:      matchmaking.Caller{Kind: "decollide", Timeout: matchmaking.Duration(5 * time.Second)},
		Assigner:       matchmaking.AssignBy{Kind: "static", Timeout: matchmaking.Duration(5 * time.Second)},
		TicketTTL:      matchmaking.Duration(10 * time.Minute),
		PendingTimeout: matchmaking.Duration(time.Minute),
		AssignmentTTL:  matchmaking.Duration(time.Minute),
		Reveal:         matchmaking.RevealNone,
		Limits:         matchmaking.Limits{MaxTickets: 100_000, MaxTicketBytes: 1 << 20},
	}, d)
}

// everything is a definition with a value for every key.
const everything = `{
	"match": {
		"function": "criteria", "teams": 3, "teamSize": 4, "acceptance": "one-sided",
		"weights": {"skill": 0.75, "ping": 0.25}, "widen": [{"after": "5s", "by": {"skill": 100}}],
		"url": "http://127.0.0.1:9000/match", "timeout": "2s", "fetchLimit": 0, "debounce": "0s"
	},
	"profile": {"name": "all", "pools": [{
		"name": "eu",
		"doubleRangeFilters": [{"doubleArg": "skill", "min": -1.5, "max": 1e3, "exclude": "BOTH"}],
		"stringEqualsFilters": [{"stringArg": "mode", "value": "ctf"}],
		"tagPresentFilters": [{"tag": "beta"}],
		"createdBefore": "2030-01-01T00:00:00Z", "createdAfter": "2020-01-01T00:00:00.5Z"
	}]},
	"evaluator": {"kind": "http", "url": "http://127.0.0.1:9000/evaluate", "timeout": "1s"},
	"assigner": {
		"kind": "agones", "connection": "{match}", "url": "https://127.0.0.1:9000/", "secret": "s", "secretFile": "",
		"timeout": "3s", "namespace": "games", "selector": {"agones.dev/fleet": "ctf"}, "tokenFile": "/token"
	},
	"ticketTTL": "200ms", "pendingTimeout": "1s", "assignmentTTL": "2s", "heartbeat": "30s",
	"reveal": "opponents", "maxTickets": 5, "maxTicketBytes": 1000
}`

func TestDefinitionIsTheSameWhenItIsWrittenAndRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{}`, everything, byUser, `{"director":"user"}`, `{"profile":{"pools":[]},"match":{"weights":{}}}`} {
		d := define(t, "q", text)
		written, err := json.Marshal(d)
		require.NoError(t, err)
		require.Equal(t, d, define(t, "q", string(written)))
	}
}

// byUser is a definition with a value for every key that a queue directed by its user has.
const byUser = `{
	"director": "user", "evaluator": {"kind": "grpc", "url": "127.0.0.1:50508", "timeout": "1s"},
	"ticketTTL": "none", "assignmentTTL": "none", "pendingTimeout": "2s", "backfillTTL": "1s",
	"registrationInterval": "1s", "proposalCollectionInterval": "20s",
	"reveal": "teammates", "maxTickets": 5, "maxTicketBytes": 1000, "maxBackfills": 7
}`

func TestQueueOfItsUser(t *testing.T) {
	t.Parallel()
	d := define(t, "q", `{"director":"user","pendingTimeout":"10s","ticketTTL":"5m"}`)
	require.True(t, d.ByUser())
	require.Equal(t, matchmaking.Definition{
		Name: "q", Director: "user",
		Evaluator:      matchmaking.Caller{Kind: "decollide", Timeout: matchmaking.Duration(5 * time.Second)},
		TicketTTL:      matchmaking.Duration(5 * time.Minute),
		PendingTimeout: matchmaking.Duration(10 * time.Second),
		AssignmentTTL:  matchmaking.Duration(5 * time.Minute), // until the end of the ticket's life
		BackfillTTL:    matchmaking.Duration(8 * time.Second),
		Reveal:         matchmaking.RevealNone,
		Limits:         matchmaking.Limits{MaxTickets: 100_000, MaxTicketBytes: 1 << 20, MaxBackfills: 100_000},
	}, d)
	require.Equal(t, matchmaking.UserDefinition("q"), define(t, "q", `{"director":"user"}`))
	require.Equal(t, matchmaking.Unlimited, define(t, "q", `{"director":"user","ticketTTL":"none"}`).AssignmentTTL)
	require.Equal(t, define(t, "q", `{}`), define(t, "q", `{"director":"service"}`))
}

func TestReveal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]matchmaking.Reveal{
		`{}`: matchmaking.RevealNone, `{"reveal":null}`: matchmaking.RevealNone,
		`{"reveal":"teammates"}`: matchmaking.RevealTeammates, `{"reveal":"opponents"}`: matchmaking.RevealOpponents,
	} {
		require.Equal(t, want, define(t, "q", text).Reveal, text)
	}
}

// asText returns a tree with all values as text, as read from YAML.
func asText(t *testing.T, value any) any {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		object := map[string]any{}
		for k, v := range value {
			object[k] = asText(t, v)
		}
		return object
	case []any:
		var list []any
		for _, v := range value {
			list = append(list, asText(t, v))
		}
		return list
	case string:
		return value
	default:
		text, err := json.Marshal(value)
		require.NoError(t, err)
		return string(text)
	}
}

func TestDefinitionOfText(t *testing.T) {
	t.Parallel()
	var tree any
	require.NoError(t, json.Unmarshal([]byte(everything), &tree))
	d, err := matchmaking.ParseDefinitionText("q", asText(t, tree))
	require.NoError(t, err)
	require.Equal(t, define(t, "q", everything), d)

	d, err = matchmaking.ParseDefinitionText("q", nil)
	require.NoError(t, err)
	require.Equal(t, define(t, "q", `{}`), d)

	_, err = matchmaking.ParseDefinitionText("q", map[string]any{"match": map[string]any{"teams": "two"}})
	requireInvalidQueue(t, err, "match.teams", `match.teams: must be an integer, not "two"`)
}

func requireInvalidQueue(t *testing.T, err error, field, detail string) {
	t.Helper()
	var clientErr *fault.Error
	require.ErrorAs(t, err, &clientErr)
	require.Equal(t, fault.Invalid, clientErr.Kind)
	require.Equal(t, fault.SlugInvalidQueue, clientErr.Slug)
	require.Equal(t, field, clientErr.Field)
	require.Contains(t, clientErr.Detail, detail)
}

func TestDefinitionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, field, detail string }{
		{``, "", "unexpected end of JSON"},
		{`{`, "", "unexpected end of JSON"},
		{`{} {}`, "", "after top-level value"},
		{`[]`, "", "must be an object, not an array"},
		{`{"match":{"teem":1}}`, "match.teem", `match.teem: unknown member (known: function, teams, `},
		{`{"Match":{}}`, "Match", "unknown member"},
		{`{"name":"x"}`, "name", "unknown member"},
		{`{"-":"x"}`, "-", "unknown member"},
		{`{"match":{"teams":1,"teams":2}}`, "match.teams", "match.teams: duplicate member"},
		{`{"match":{"widen":[{"after":"5s","by":{"a":1}},{"after":5}]}}`, "match.widen[1].after",
			"match.widen[1].after: must be a duration, such as \"500ms\" or \"10m\", not 5"},
		{`{"match":{"widen":[{"after":"0s","by":{"a":1}}]}}`, "match.widen[0].after", "must be at least 1ms, not 0s"},
		{`{"match":{"widen":[{"after":"5s"}]}}`, "match.widen[0].by", "must name a criterion"},
		{`{"match":{"widen":[{"after":"5s","by":{"a":0}}]}}`, "match.widen[0].by.a", "must be positive, not 0"},
		{`{"match":{"teams":"2"}}`, "match.teams", "must be an integer, not a string"},
		{`{"match":{"teams":2.5}}`, "match.teams", "must be an integer, not 2.5"},
		{`{"match":{"teams":0}}`, "match.teams", "must be positive, not 0"},
		{`{"match":{"teams":101}}`, "match.teams", "must be at most 100, not 101"},
		{`{"match":{"teams":11,"teamSize":10}}`, "match.teamSize", "11 teams of 10 are more than 100 players"},
		{`{"match":{"function":"magic"}}`, "match.function",
			`must be one of ["first-come" "criteria" "http" "grpc"], not "magic"`},
		{`{"match":{"function":"http"}}`, "match.url", "must not be empty"},
		{`{"match":{"function":"http","url":"ftp://x"}}`, "match.url", "must be a URL such as http://host/path"},
		{`{"match":{"function":"http","url":"http://u:secret@:x"}}`, "match.url", "must be a URL: invalid port"},
		{`{"match":{"acceptance":""}}`, "match.acceptance", "must be one of"},
		{`{"match":{"weights":{"a":1e999}}}`, "match.weights.a", "1e999 is too large for a double"},
		{`{"match":{"weights":{"a":-1}}}`, "match.weights.a", "must be 0 or more, not -1"},
		{`{"match":{"fetchLimit":-1}}`, "match.fetchLimit", "must be 0 (no limit) or more, not -1"},
		{`{"match":{"debounce":"2m"}}`, "match.debounce", "must be at most a minute, not 2m0s"},
		{`{"profile":{"pools":[{"doubleRangeFilters":[{"doubleArg":"a","min":2,"max":1}]}]}}`,
			"profile.pools[0].doubleRangeFilters[0].min", "must be at most max, 1, not 2"},
		{`{"profile":{"pools":[{"name":"a"},{"name":"a"}]}}`, "profile.pools[1].name", `duplicate pool "a"`},
		{`{"profile":{"pools":[{"createdAfter":"yesterday"}]}}`, "profile.pools[0].createdAfter", "must be a time"},
		{`{"evaluator":{"kind":"grpc"}}`, "evaluator.url", "must not be empty"},
		{`{"assigner":{"kind":"webhook"}}`, "assigner.url", "must not be empty"},
		{`{"assigner":{"kind":"webhook","url":"http://x","secret":"a","secretFile":"b"}}`, "assigner.secretFile",
			"must be empty if there is a secret"},
		{`{"ticketTTL":"199ms"}`, "ticketTTL", "ticketTTL: must be at least 200ms, not 199ms"},
		{`{"pendingTimeout":"100ms"}`, "pendingTimeout", "must be at least"},
		{`{"assignmentTTL":"10000h"}`, "assignmentTTL", "must be at most 8760h0m0s, not 10000h0m0s"},
		{`{"heartbeat":"-1s"}`, "heartbeat", "must be at least"},
		{`{"maxTickets":-1}`, "maxTickets", "must be 0 (no limit) or more, not -1"},
		{`{"maxTicketBytes":0}`, "maxTicketBytes", "must be positive, not 0"},
		{`{"director":"me"}`, "director", `must be one of ["service" "user"], not "me"`},
		{`{"ticketTTL":"none"}`, "ticketTTL", "must be at most 8760h0m0s, not none"},
		{`{"backfillTTL":"1m"}`, "backfillTTL", "it is for queues with director: user"},
		{`{"registrationInterval":"1s"}`, "registrationInterval", "it is for queues with director: user"},
		{`{"proposalCollectionInterval":"1s"}`, "proposalCollectionInterval", "for queues with director: user"},
		{`{"maxBackfills":1}`, "maxBackfills", "it is for queues with director: user"},
		{`{"director":"user","match":{"teams":2}}`, "match", "must be left out: the queue is directed by its user"},
		{`{"director":"user","profile":{"name":"a"}}`, "profile", "must be left out"},
		{`{"director":"user","assigner":{"kind":"static"}}`, "assigner", "must be left out"},
		{`{"director":"user","heartbeat":"1s"}`, "heartbeat", "must be left out"},
		{`{"director":"user","backfillTTL":"1ms"}`, "backfillTTL", "must be at least 100ms"},
		{`{"director":"user","registrationInterval":"11m"}`, "registrationInterval", "must be at most 10m0s"},
		{`{"director":"user","proposalCollectionInterval":"-1s"}`, "proposalCollectionInterval", "must be 0 or more"},
		{`{"director":"user","assignmentTTL":"none"}`, "assignmentTTL", "must be at most"},
		{`{"director":"user","maxBackfills":0}`, "maxBackfills", "must be positive, not 0"},
		{`{"teammates":true}`, "teammates", "unknown member"},
		{`{"reveal":"all"}`, "reveal", `must be one of ["none" "teammates" "opponents"], not "all"`},
	} {
		t.Run(c.text, func(t *testing.T) {
			t.Parallel()
			_, err := matchmaking.ParseDefinition("q", []byte(c.text))
			requireInvalidQueue(t, err, c.field, c.detail)
		})
	}
	_, err := matchmaking.ParseDefinition("a{b", []byte(`{}`))
	requireInvalidQueue(t, err, "queue", `"a{b"`)
}

func FuzzParseDefinition(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(byUser))
	f.Add([]byte(`{"match":{"widen":[{}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := matchmaking.ParseDefinition("q", text)
		if err != nil {
			var clientErr *fault.Error
			require.ErrorAs(t, err, &clientErr)
			return
		}
		written, err := json.Marshal(d)
		require.NoError(t, err)
		again, err := matchmaking.ParseDefinition("q", written)
		require.NoError(t, err)
		require.Equal(t, d, again)
	})
}
