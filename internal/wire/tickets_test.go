package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

func TestDecodeNewTicket(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.NewTicket{
		` {} `: {},
		`{"queue":"duel","id":"a","ttl":"1m30s"}`: {Queue: "duel", ID: "a", TTL: wire.TTL(90 * time.Second)},
		`{"searchFields":{"tags":["a","\u0062"],"doubleArgs":{"x":-1.5e3},"stringArgs":{"k\"":"v"}}}`: {Spec: matchmaking.Spec{
			SearchFields: matchmaking.SearchFields{Tags: []string{"a", "b"}, DoubleArgs: matchmaking.Doubles{"x": -1500},
				StringArgs: map[string]string{`k"`: "v"}},
		}},
		`{"searchFields":{"doubleArgs":{"a":"Infinity","b":"-Infinity"}}}`: {Spec: matchmaking.Spec{
			SearchFields: matchmaking.SearchFields{DoubleArgs: matchmaking.Doubles{"a": math.Inf(1), "b": math.Inf(-1)}},
		}},
		`{"criteria":[{"maxValue":2,"name":"s","minValue":-1}],"statistics":[{"name":"s","value":0.5}],"numTeams":2,"teamSize":3,"players":2}`: {
			Spec: matchmaking.Spec{
				Criteria:   []matchmaking.Criterion{{Name: "s", MinValue: -1, MaxValue: 2}},
				Statistics: []matchmaking.Statistic{{Name: "s", Value: .5}},
				NumTeams:   2, TeamSize: 3, Players: 2,
			},
		},
		`{"extensions":{"a":{ "b": [1.0] }},"persistentField":{"c":null}}`: {Spec: matchmaking.Spec{
			Extensions:      map[string]json.RawMessage{"a": json.RawMessage(`{ "b": [1.0] }`)},
			PersistentField: map[string]json.RawMessage{"c": json.RawMessage(`null`)},
		}},
		`{"criteria":[],"extensions":{},"searchFields":{"tags":[]}}`: {Spec: matchmaking.Spec{
			Criteria: []matchmaking.Criterion{}, Extensions: map[string]json.RawMessage{},
			SearchFields: matchmaking.SearchFields{Tags: []string{}},
		}},
	} {
		got, err := wire.DecodeNewTicket([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got, body)
	}
}

func TestDecodeNewTicketNaN(t *testing.T) {
	t.Parallel()
	got, err := wire.DecodeNewTicket([]byte(`{"searchFields":{"doubleArgs":{"a":"NaN"}}}`))
	require.NoError(t, err)
	require.True(t, math.IsNaN(got.SearchFields.DoubleArgs["a"]))
}

// TestDecodedTicketsHaveNothingOfTheBody shows that the body's buffer can be used for another one.
func TestDecodedTicketsHaveNothingOfTheBody(t *testing.T) {
	t.Parallel()
	body := []byte(`{"id":"abc","searchFields":{"tags":["tag"]},"extensions":{"key":"value"}}`)
	got, err := wire.DecodeNewTicket(body)
	require.NoError(t, err)
	for i := range body {
		body[i] = '#'
	}
	require.Equal(t, "abc", got.ID)
	require.Equal(t, []string{"tag"}, got.SearchFields.Tags)
	require.Equal(t, map[string]json.RawMessage{"key": json.RawMessage(`"value"`)}, got.Extensions)
}

func TestDecodeNewTicketRefuses(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.InputError{
		"":   {Detail: "the body is empty, it must be JSON"},
		`[]`: {Detail: "the body must be an object, not an array"},
		`{"nam":1}`: {
			Detail: "nam: unknown member (known: queue, id, ttl, searchFields, criteria, statistics, numTeams, teamSize, players, extensions, persistentField)",
			Field:  "/nam", Offset: 1,
		},
		`{"id":""}`: {Slug: fault.SlugInvalidTicket, Detail: "the id is empty: leave it out to have one made",
			Field: "/id", Offset: 6},
		`{"queue":""}`: {Slug: fault.SlugInvalidTicket,
			Detail: "the queue is empty: leave it out for the queue default", Field: "/queue", Offset: 9},
		`{"queue":null}`: {Detail: "queue: must be a string, not null", Field: "/queue", Offset: 9},
		`{"ttl":"soon"}`: {Slug: fault.SlugInvalidTicket,
			Detail: `ttl must be a positive duration, such as 5m or 1m30s, not "soon"`, Field: "/ttl", Offset: 7},
		`{"ttl":"-1s"}`: {Slug: fault.SlugInvalidTicket,
			Detail: `ttl must be a positive duration, such as 5m or 1m30s, not "-1s"`, Field: "/ttl", Offset: 7},
		`{"ttl":"\ud83d"}`: {
			Detail: `ttl: "\ud83d" contains half of a surrogate pair, which is not a character`, Field: "/ttl", Offset: 7,
		},
		`{"ttl":5}`:         {Detail: "ttl: must be a string, not a number", Field: "/ttl", Offset: 7},
		`{"numTeams":1.5}`:  {Detail: "numTeams: must be an integer, not 1.5", Field: "/numTeams", Offset: 12},
		`{"criteria":{}}`:   {Detail: "criteria: must be an array, not an object", Field: "/criteria", Offset: 12},
		`{"criteria":null}`: {Detail: "criteria: must be an array, not null", Field: "/criteria", Offset: 12},
		`{"criteria":[1]}`:  {Detail: "criteria[0]: must be an object, not a number", Field: "/criteria/0", Offset: 13},
		`{"criteria":[{"name":"a","maxValue":0}]}`: {Detail: "criteria[0].minValue: is missing",
			Field: "/criteria/0/minValue", Offset: 37},
		`{"criteria":[{"name":"a","minValue":0}]}`: {Detail: "criteria[0].maxValue: is missing",
			Field: "/criteria/0/maxValue", Offset: 37},
		`{"criteria":[{"minValue":0}]}`: {Detail: "criteria[0].name: is missing",
			Field: "/criteria/0/name", Offset: 26},
		`{"criteria":[{"min":0}]}`: {Detail: "criteria[0].min: unknown member (known: name, minValue, maxValue)",
			Field: "/criteria/0/min", Offset: 14},
		`{"statistics":[{"value":1}]}`: {Detail: "statistics[0].name: is missing",
			Field: "/statistics/0/name", Offset: 25},
		`{"statistics":[{"name":"a"}]}`: {Detail: "statistics[0].value: is missing",
			Field: "/statistics/0/value", Offset: 26},
		`{"statistics":[{"name":"a","value":1e99999}]}`: {Detail: "statistics[0].value: 1e99999 is too large for a double", Field: "/statistics/0/value", Offset: 35},
		`{"searchFields":{"tags":["a",1]}}`:             {Detail: "searchFields.tags[1]: must be a string, not a number", Field: "/searchFields/tags/1", Offset: 29},
		`{"searchFields":{"tags":["\ud83d"]}}`: {
			Detail: `searchFields.tags[0]: "\ud83d" contains half of a surrogate pair, which is not a character`,
			Field:  "/searchFields/tags/0", Offset: 25,
		},
		`{"searchFields":{"tag":["a"]}}`: {Detail: "searchFields.tag: unknown member (known: tags, doubleArgs, stringArgs)", Field: "/searchFields/tag", Offset: 17},
		`{"searchFields":{"doubleArgs":{"a/b":"1"}}}`: {
			Detail: `searchFields.doubleArgs.a/b: must be a number, "NaN", "Infinity" or "-Infinity", not "1"`,
			Field:  "/searchFields/doubleArgs/a~1b", Offset: 37,
		},
		`{"searchFields":{"stringArgs":{"a":1}}}`: {Detail: "searchFields.stringArgs.a: must be a string, not a number",
			Field: "/searchFields/stringArgs/a", Offset: 35},
		`{"extensions":[]}`: {Detail: "extensions: must be an object, not an array",
			Field: "/extensions", Offset: 14},
		`{"extensions":{"a":1,"a":2}}`: {Detail: "extensions.a: duplicate member", Field: "/extensions/a",
			Offset: 21},
	} {
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			_, err := wire.DecodeNewTicket([]byte(body))
			refused(t, err, want)
		})
	}
}

func TestDefinitionError(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.InputError{
		" ":   {Detail: "the body is empty, it must be JSON"},
		`"x"`: {Detail: "the body must be an object, not a string"},
		`{"a":{"b":1,"b":2}}`: {Slug: fault.SlugInvalidQueue, Detail: "a.b: duplicate member", Field: "/a/b",
			Offset: 12},
	} {
		var members map[string]any
		err := strictjson.Unmarshal([]byte(body), &members)
		refused(t, wire.DefinitionError([]byte(body), fmt.Errorf("queue q: %w", err)), want)
	}
	other := errors.New("other")
	require.Equal(t, other, wire.DefinitionError(nil, other))
}

func TestCreatedTicketAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := func(what string) string { return names.Draw(t, what) }
		want := client.CreatedTicket{
			ID: name("id"), Queue: name("queue"), Status: string(matchmaking.Searching), Channel: name("channel"),
			Subscriber: name("subscriber"),
			CreateTime: times.Draw(t, "at").Add(time.Duration(rapid.IntRange(0, 999).Draw(t, "µs")) * time.Microsecond),
			Token:      rapid.SampledFrom([]string{"", "tmt_x-_"}).Draw(t, "token"), ChannelURL: "/v1/channels/c",
			MessagesURL: "/v1/channels/c/subscribers/s/messages",
		}
		decodes(t, wire.AppendCreatedTicket(nil, &want), want)
		byReflection, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, string(byReflection), string(wire.AppendCreatedTicket(nil, &want)))
	})
}
