package wire_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

func TestDecodeNewTicket(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.NewTicket{
		` {} `: {},
		`{"queue":"duel","id":"a","ttl":"1m30s"}`: {Queue: "duel", ID: "a", TTL: wire.TTL(90 * time.Second)},
		`{"searchFields":{"tags":["a","\u0062"],"doubleArgs":{"x":-1.5e3},"stringArgs":{"k\"":"v"}}}`: {TicketSpec: wire.TicketSpec{
			SearchFields: wire.SearchFields{Tags: []string{"a", "b"}, DoubleArgs: wire.Doubles{"x": -1500}, StringArgs: map[string]string{`k"`: "v"}},
		}},
		`{"searchFields":{"doubleArgs":{"a":"Infinity","b":"-Infinity"}}}`: {TicketSpec: wire.TicketSpec{
			SearchFields: wire.SearchFields{DoubleArgs: wire.Doubles{"a": math.Inf(1), "b": math.Inf(-1)}},
		}},
		`{"criteria":[{"maxValue":2,"name":"s","minValue":-1}],"statistics":[{"name":"s","value":0.5}],"numTeams":2,"teamSize":3}`: {
			TicketSpec: wire.TicketSpec{
				Criteria: []wire.Criterion{{Name: "s", MinValue: -1, MaxValue: 2}}, Statistics: []wire.Statistic{{Name: "s", Value: .5}},
				NumTeams: 2, TeamSize: 3,
			},
		},
		`{"extensions":{"a":{ "b": [1.0] }},"persistentField":{"c":null}}`: {TicketSpec: wire.TicketSpec{
			Extensions:      map[string]json.RawMessage{"a": json.RawMessage(`{ "b": [1.0] }`)},
			PersistentField: map[string]json.RawMessage{"c": json.RawMessage(`null`)},
		}},
		`{"criteria":[],"extensions":{},"searchFields":{"tags":[]}}`: {TicketSpec: wire.TicketSpec{
			Criteria: []wire.Criterion{}, Extensions: map[string]json.RawMessage{}, SearchFields: wire.SearchFields{Tags: []string{}},
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
	const members = "queue, id, searchFields, criteria, statistics, numTeams, teamSize, extensions, persistentField and ttl"
	for body, want := range map[string]wire.InputError{
		"":                          {Detail: "the body is empty, it must be JSON"},
		`[]`:                        {Detail: "the body must be an object, it is an array"},
		`{"name":1}`:                {Detail: `there is no member "name" here, only ` + members, Field: "/name", Offset: 7},
		`{"id":"a","id":"b"}`:       {Detail: `the member "id" is there twice`, Field: "/id", Offset: 10},
		`{"id":""}`:                 {Slug: fault.SlugInvalidTicket, Detail: "the id is empty: leave it out to have one made", Field: "/id", Offset: 8},
		`{"queue":""}`:              {Slug: fault.SlugInvalidTicket, Detail: "the queue is empty: leave it out for the queue default", Field: "/queue", Offset: 11},
		`{"queue":null}`:            {Detail: "queue must be a string, it is null", Field: "/queue", Offset: 9},
		`{"ttl":"soon"}`:            {Slug: fault.SlugInvalidTicket, Detail: `ttl is "soon", it must be a duration, as in 5m or 1m30s`, Field: "/ttl", Offset: 13},
		`{"ttl":"-1s"}`:             {Slug: fault.SlugInvalidTicket, Detail: `ttl is "-1s", it must be a duration, as in 5m or 1m30s`, Field: "/ttl", Offset: 12},
		`{"ttl":5}`:                 {Detail: "ttl must be a string, it is a number", Field: "/ttl", Offset: 7},
		`{"numTeams":1.5}`:          {Detail: "numTeams must be an integer, it is 1.5", Field: "/numTeams", Offset: 15},
		`{"teamSize":"2"}`:          {Detail: "teamSize must be an integer, it is a string", Field: "/teamSize", Offset: 12},
		`{"criteria":{}}`:           {Detail: "criteria must be an array, it is an object", Field: "/criteria", Offset: 12},
		`{"criteria":[1]}`:          {Detail: "a criterion must be an object, it is a number", Field: "/criteria/0", Offset: 13},
		`{"criteria":[{"name":""}]`: {Detail: "minValue is missing", Field: "/criteria/0/minValue", Offset: 24},
		`{"criteria":[{"name":"a","minValue":0}]}`: {Detail: "maxValue is missing", Field: "/criteria/0/maxValue", Offset: 38},
		`{"criteria":[{"minValue":0}]}`:            {Detail: "name is missing", Field: "/criteria/0/name", Offset: 27},
		`{"criteria":[{"min":0}]}`:                 {Detail: `there is no member "min" here, only name, minValue and maxValue`, Field: "/criteria/0/min", Offset: 19},
		`{"statistics":[{"value":1}]}`:             {Detail: "name is missing", Field: "/statistics/0/name", Offset: 26},
		`{"statistics":[{"name":"a"}]}`:            {Detail: "value is missing", Field: "/statistics/0/value", Offset: 27},
		`{"statistics":[{"name":"a","value":1e999}]}`: {
			Detail: "value is 1e999, which is too large for a double", Field: "/statistics/0/value", Offset: 40,
		},
		`{"statistics":[{"name":"a","value":"1"}]}`: {Detail: "value must be a number, it is a string", Field: "/statistics/0/value", Offset: 35},
		`{"searchFields":{"tags":["a",1]}}`:         {Detail: "a tag must be a string, it is a number", Field: "/searchFields/tags/1", Offset: 29},
		`{"searchFields":{"tag":["a"]}}`:            {Detail: `there is no member "tag" here, only tags, doubleArgs and stringArgs`, Field: "/searchFields/tag", Offset: 22},
		`{"searchFields":{"doubleArgs":{"a/b":"1"}}}`: {
			Detail: `a double argument must be a number, "NaN", "Infinity" or "-Infinity", it is "1"`, Field: "/searchFields/doubleArgs/a~1b", Offset: 40,
		},
		`{"searchFields":{"stringArgs":{"a":1}}}`: {Detail: "a string argument must be a string, it is a number", Field: "/searchFields/stringArgs/a", Offset: 35},
		`{"extensions":{"\ud83d":1}}`:             {Detail: `"\ud83d" has half of a surrogate pair, which is no character`, Field: "/extensions/\ufffd", Offset: 23},
		`{"searchFields":{"tags":["\ud83d"]}}`:    {Detail: `"\ud83d" has half of a surrogate pair, which is no character`, Field: "/searchFields/tags/0", Offset: 33},
		`{"extensions":[]}`:                       {Detail: "extensions must be an object, it is an array", Field: "/extensions", Offset: 14},
		`{"extensions":{"a":1,"a":2}}`:            {Detail: `the member "a" is there twice`, Field: "/extensions/a", Offset: 21},
		`{"criteria":[{"name":"a"`:                {Detail: "the JSON is cut short", Field: "/criteria/0", Offset: 24},
		`{"criteria":[`:                           {Detail: "the JSON is cut short", Field: "/criteria", Offset: 13},
		`{} {}`:                                   {Detail: "there is something after the JSON value", Offset: 4},
	} {
		if want.Slug == "" {
			want.Slug = fault.SlugInvalidBody
		}
		t.Run(body, func(t *testing.T) {
			t.Parallel()
			_, err := wire.DecodeNewTicket([]byte(body))
			refused(t, err, want)
		})
	}
}

func TestDecodeDefinition(t *testing.T) {
	t.Parallel()
	got, err := wire.DecodeDefinition([]byte(" {\"match\" : {}}\n"))
	require.NoError(t, err)
	require.Equal(t, `{"match" : {}}`, string(got))
	for body, want := range map[string]wire.InputError{
		"":                    {Detail: "the body is empty, it must be JSON"},
		`"x"`:                 {Detail: "the body must be an object, it is a string"},
		`{"a":{"b":1,"b":2}}`: {Detail: `the member "b" is there twice`, Field: "/a/b", Offset: 12},
		`{"a":1}{}`:           {Detail: "there is something after the JSON value", Offset: 8},
		`{"a":"\ud83d"}`:      {Detail: "the body is not valid JSON: invalid surrogate pair `\\ud83d\"}` in string", Field: "/a", Offset: 6},
		"{\"\xff\":1}":        {Detail: "the body is not valid JSON: invalid UTF-8", Offset: 2},
	} {
		_, err := wire.DecodeDefinition([]byte(body))
		want.Slug = fault.SlugInvalidBody
		refused(t, err, want)
	}
}

func TestCreatedTicketAppendJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := func(what string) string { return names.Draw(t, what) }
		want := wire.CreatedTicket{
			ID: name("id"), Queue: name("queue"), Status: wire.TicketSearching, Channel: name("channel"), Subscriber: name("subscriber"),
			CreateTime: times.Draw(t, "at").Add(time.Duration(rapid.IntRange(0, 999).Draw(t, "µs")) * time.Microsecond),
			ChannelURL: "/v1/channels/c", MessagesURL: "/v1/channels/c/subscribers/s/messages",
		}
		decodes(t, want.AppendJSON(nil), want)
		byReflection, err := json.Marshal(want)
		require.NoError(t, err)
		require.Equal(t, string(byReflection), string(want.AppendJSON(nil)))
	})
}

func TestDoubles(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(wire.Doubles{"a": 1.5, "b": math.NaN(), "c": math.Inf(1), "d": math.Inf(-1)})
	require.NoError(t, err)
	require.Equal(t, `{"a":1.5,"b":"NaN","c":"Infinity","d":"-Infinity"}`, string(data))
	var got wire.Doubles
	require.NoError(t, json.Unmarshal(data, &got))
	require.True(t, math.IsNaN(got["b"]))
	delete(got, "b")
	require.Equal(t, wire.Doubles{"a": 1.5, "c": math.Inf(1), "d": math.Inf(-1)}, got)
	for _, bad := range []string{`{"a":"1"}`, `{"a":"nan"}`, `{"a":{}}`, `[]`, `{"a":1e999}`} {
		require.Error(t, json.Unmarshal([]byte(bad), &got), bad)
	}
}
