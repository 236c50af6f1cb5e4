package convert_test

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

func anyOf(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a := new(anypb.Any)
	require.NoError(t, anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}))
	return a
}

func valueOf(t testing.TB, v any) *anypb.Any {
	t.Helper()
	value, err := structpb.NewValue(v)
	require.NoError(t, err)
	return anyOf(t, value)
}

// jsonOf returns the spec of a message, and its form for JSON callers.
func jsonOf(t require.TestingT, m *openmatch.Ticket) (spec, seen matchmaking.Spec) {
	spec, err := convert.ToSpec(m)
	require.NoError(t, err)
	return spec, convert.WithExtensions(spec)
}

// TestExtensions converts a client's Anys to JSON, and an assigner's JSON to Anys.
func TestExtensions(t *testing.T) {
	t.Parallel()
	const types = `"@type":"type.googleapis.com/`
	for name, c := range map[string]struct {
		any  *anypb.Any
		json string
	}{
		"text": {anyOf(t, wrapperspb.String("eu")), `{` + types + `google.protobuf.StringValue","value":"eu"}`},
		"large": {anyOf(t, wrapperspb.Int64(math.MaxInt64)),
			`{` + types + `google.protobuf.Int64Value","value":"9223372036854775807"}`},
		"no number": {anyOf(t, wrapperspb.Double(math.NaN())),
			`{` + types + `google.protobuf.DoubleValue","value":"NaN"}`},
		"duration": {anyOf(t, durationpb.New(1500*time.Millisecond)),
			`{` + types + `google.protobuf.Duration","value":"1.500s"}`},
		"time": {anyOf(t, timestamppb.New(time.Unix(1, 0))),
			`{` + types + `google.protobuf.Timestamp","value":"1970-01-01T00:00:01Z"}`},
		"nothing": {anyOf(t, &emptypb.Empty{}), `{` + types + `google.protobuf.Empty"}`},
		"value":   {valueOf(t, []any{1.0, "a", nil}), `{` + types + `google.protobuf.Value","value":[1,"a",null]}`},
		"score": {anyOf(t, &openmatch.DefaultEvaluationCriteria{Score: 2}),
			`{` + types + `openmatch.DefaultEvaluationCriteria","score":2}`},
		"unknown": {&anypb.Any{TypeUrl: "mygame.example/mygame.Hero", Value: []byte{0, 255}},
			`{"@type":"mygame.example/mygame.Hero","value":"AP8="}`},
		"in an any": {anyOf(t, anyOf(t, wrapperspb.Bool(true))),
			`{` + types +
				`google.protobuf.Any","value":"Ci10eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5wcm90b2J1Zi5Cb29sVmFsdWUSAggB"}`},
		"no type": {&anypb.Any{Value: []byte{1}}, `{"@type":"","value":"AQ=="}`},
		"empty":   {&anypb.Any{}, `{"@type":"","value":""}`},
	} {
		_, seen := jsonOf(t, &openmatch.Ticket{PersistentField: map[string]*anypb.Any{"x": c.any}})
		require.JSONEq(t, c.json, string(seen.PersistentField["x"]), name)
		back := convert.FromAssignment(&matchmaking.Assignment{Extensions: seen.PersistentField}).GetExtensions()["x"]
		require.True(t, proto.Equal(c.any, back), "%s: %v", name, back)
	}
	for name, a := range map[string]*anypb.Any{
		"NaN in a value": valueOf(t, math.NaN()), "a value without one": anyOf(t, &structpb.Value{}),
		"garbage": {TypeUrl: "a/google.protobuf.BoolValue", Value: []byte{8}},
	} {
		_, err := convert.ToExtensions(map[string]*anypb.Any{"x": a})
		require.Error(t, err, name)
		spec, seen := jsonOf(t, &openmatch.Ticket{Extensions: map[string]*anypb.Any{"x": a}})
		require.Contains(t, string(seen.Extensions["x"]), base64.StdEncoding.EncodeToString(a.GetValue()), name)
		require.True(t, proto.Equal(a, convert.FromTicket(&matchmaking.Ticket{Spec: spec}).GetExtensions()["x"]), name)
	}
}

// TestPlainJSON: JSON that isn't an Any becomes a Value.
func TestPlainJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		`{"a":[1,true,null]}`:                   map[string]any{"a": []any{1.0, true, nil}},
		`"text"`:                                "text",
		` 1.5 `:                                 1.5,
		`null`:                                  nil,
		`{"@type":1}`:                           map[string]any{"@type": 1.0},
		`{"@type":"u"}`:                         map[string]any{"@type": "u"},
		`{"@type":"u","value":"AQ==","more":1}`: map[string]any{"@type": "u", "value": "AQ==", "more": 1.0},
		`{"@type":"u","value":"!"}`:             map[string]any{"@type": "u", "value": "!"},
		`{"@type":"type.googleapis.com/google.protobuf.BoolValue","value":"x"}`: map[string]any{
			"@type": "type.googleapis.com/google.protobuf.BoolValue", "value": "x",
		},
		`1e999`:         "1e999", // a Value can't represent it
		`{"a":1,"a":2}`: `{"a":1,"a":2}`,
	} {
		a := convert.FromExtensions(map[string]json.RawMessage{"x": json.RawMessage(text)})["x"]
		require.True(t, proto.Equal(valueOf(t, want), a), "%s: %v", text, a)
	}
}

// TestFieldsOfAMessage checks the fields used for matching.
func TestFieldsOfAMessage(t *testing.T) {
	t.Parallel()
	numbers := &openmatch.SearchFields{DoubleArgs: map[string]float64{"b": 2, "a": 1, "nan": math.NaN(),
		"inf": math.Inf(1), "": 3}}
	criteria := valueOf(t, []any{map[string]any{"name": "a", "minValue": -1.0, "maxValue": 5.5}})
	match := anyOf(t, &structpb.Struct{Fields: map[string]*structpb.Value{"numTeams": structpb.NewNumberValue(2),
		"teamSize": structpb.NewNumberValue(3)}})
	for name, c := range map[string]struct {
		extensions map[string]*anypb.Any
		want       matchmaking.Spec
	}{
		"no extension": {nil,
			matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "a", Value: 1}, {Name: "b", Value: 2}}}},
		"criteria and sizes": {
			map[string]*anypb.Any{"tidemark.criteria": criteria, "tidemark.match": match,
				"criteria": anyOf(t, wrapperspb.Bool(true))},
			matchmaking.Spec{
				Criteria:   []matchmaking.Criterion{{Name: "a", MinValue: -1, MaxValue: 5.5}},
				Statistics: []matchmaking.Statistic{{Name: "a", Value: 1}, {Name: "b", Value: 2}}, NumTeams: 2,
				TeamSize: 3,
			},
		},
		"own statistics": {
			map[string]*anypb.Any{"tidemark.statistics": valueOf(t, []any{map[string]any{"name": "c", "value": 4}})},
			matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "c", Value: 4}}},
		},
		"no statistics": {map[string]*anypb.Any{"tidemark.statistics": valueOf(t, []any{})}, matchmaking.Spec{}},
	} {
		got, err := convert.ToSpec(&openmatch.Ticket{SearchFields: numbers, Extensions: c.extensions})
		require.NoError(t, err, name)
		require.True(t, math.IsNaN(got.SearchFields.DoubleArgs["nan"]), name)
		got.SearchFields, got.Sent = matchmaking.SearchFields{}, nil
		require.Equal(t, c.want, got, name)
	}
}

// TestTTL checks the TTL from an Int64Value, also as JSON.
func TestTTL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		`{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":600000000000}`:   10 * time.Minute,
		`{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"600000000000"}`: 10 * time.Minute,
		`{"@type":"type.googleapis.com/google.protobuf.Int64Value","value":"x"}`:            0,
		`{"@type":"type.googleapis.com/google.protobuf.StringValue","value":"10m"}`:         0,
		`600000000000`: 0,
	} {
		spec := matchmaking.Spec{PersistentField: map[string]json.RawMessage{"ttl": json.RawMessage(text)}}
		require.Equal(t, want, convert.TTLOfJSON(spec.PersistentField), text)
		require.Equal(t, want, convert.TTLOf(convert.FromTicket(&matchmaking.Ticket{Spec: spec})), text)
	}
	require.Zero(t, convert.TTLOfJSON(nil))
	require.Zero(t, convert.TTLOf(&openmatch.Ticket{PersistentField: map[string]*anypb.Any{
		"ttl": {TypeUrl: "type.googleapis.com/google.protobuf.Int64Value", Value: []byte{8}},
	}}))
}

// TestMessageOfJSON checks the message that Open Match's clients receive for a ticket of the JSON API.
func TestMessageOfJSON(t *testing.T) {
	t.Parallel()
	spec := matchmaking.Spec{
		Criteria:   []matchmaking.Criterion{{Name: "a", MinValue: 1, MaxValue: 2}},
		Statistics: []matchmaking.Statistic{{Name: "a", Value: 3}},
		NumTeams:   2, Extensions: map[string]json.RawMessage{"x": json.RawMessage(`{ "b": [1.0] }`),
			"tidemark.match": json.RawMessage(`"mine"`)},
	}
	assigned := &matchmaking.Assignment{
		MatchID: "m", Queue: "duel", Team: 1, Connection: "h:1", Teammates: []string{"a", "b"},
		Opponents:  []string{"c"},
		Extensions: map[string]json.RawMessage{"e": json.RawMessage("1")},
	}
	m := convert.FromTicket(&matchmaking.Ticket{ID: "t", Spec: spec, Assignment: assigned})
	match, err := structpb.NewStruct(map[string]any{
		"matchId": "m", "queue": "duel", "team": 1, "teammates": []any{"a", "b"}, "opponents": []any{"c"},
	})
	require.NoError(t, err)
	want := &openmatch.Ticket{
		Id: "t", SearchFields: &openmatch.SearchFields{},
		Assignment: &openmatch.Assignment{Connection: "h:1", Extensions: map[string]*anypb.Any{"e": valueOf(t, 1)}},
		Extensions: map[string]*anypb.Any{
			"tidemark.criteria":   valueOf(t, []any{map[string]any{"name": "a", "minValue": 1, "maxValue": 2}}),
			"tidemark.statistics": valueOf(t, []any{map[string]any{"name": "a", "value": 3}}),
			"tidemark.match":      valueOf(t, "mine"), // the caller's, in place of the sizes
			"x":                   valueOf(t, map[string]any{"b": []any{1}}),
		},
	}
	require.True(t, proto.Equal(want, m), "%v", m)
	want.Assignment.Extensions["tidemark.match"] = anyOf(t, match)
	require.True(t, proto.Equal(want.GetAssignment(), convert.WithMatch(assigned)))
	for _, c := range []struct {
		a    matchmaking.Assignment
		want *anypb.Any
	}{
		{matchmaking.Assignment{MatchID: "m", Queue: "q"}, anyOf(t, &structpb.Struct{Fields: map[string]*structpb.Value{
			"matchId": structpb.NewStringValue("m"), "queue": structpb.NewStringValue("q"),
			"team": structpb.NewNumberValue(0),
		}})},
		{matchmaking.Assignment{Extensions: map[string]json.RawMessage{"tidemark.match": json.RawMessage(`"mine"`)}},
			valueOf(t, "mine")},
	} {
		require.True(t, proto.Equal(c.want, convert.WithMatch(&c.a).GetExtensions()["tidemark.match"]))
	}
}

// TestRefusedTickets: the error names the extension.
func TestRefusedTickets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		extension string
		any       *anypb.Any
	}{
		"of another type":   {"tidemark.criteria", anyOf(t, wrapperspb.Bool(true))},
		"of no type":        {"tidemark.criteria", &anypb.Any{}},
		"text":              {"tidemark.criteria", valueOf(t, "a")},
		"a number":          {"tidemark.criteria", valueOf(t, math.NaN())},
		"half a criterion":  {"tidemark.criteria", valueOf(t, []any{map[string]any{"name": "a", "minValue": 1}})},
		"an unknown member": {"tidemark.criteria", valueOf(t, []any{map[string]any{"nam": "a"}})},
		"half a statistic":  {"tidemark.statistics", valueOf(t, []any{map[string]any{"name": "a"}})},
		"half a team":       {"tidemark.match", valueOf(t, map[string]any{"teamSize": 1.5})},
		"a list of sizes":   {"tidemark.match", valueOf(t, []any{1})},
	} {
		_, err := convert.ToSpec(&openmatch.Ticket{Extensions: map[string]*anypb.Any{c.extension: c.any}})
		var e *fault.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, fault.Invalid, e.Kind)
		require.Equal(t, "extensions."+c.extension, e.Field, name)
		require.Contains(t, e.Detail, e.Field)
	}
}

func TestProposals(t *testing.T) {
	t.Parallel()
	p := matchmaking.Proposal{ID: "m", Teams: [][]*matchmaking.Ticket{{{ID: "a"}}, {{ID: "b"}}}, Score: 1.5}
	m := convert.FromProposal(p, "profile")
	require.Equal(t, []string{"m", "profile", "a", "b"}, []string{m.GetMatchId(), m.GetMatchProfile(),
		m.GetTickets()[0].GetId(), m.GetTickets()[1].GetId()})
	score, err := convert.ScoreOf(m)
	require.NoError(t, err)
	require.InDelta(t, 1.5, score, 0)
	_, err = convert.ScoreOf(
		&openmatch.Match{Extensions: map[string]*anypb.Any{"evaluation_input": anyOf(t, wrapperspb.Bool(true))}})
	require.ErrorContains(t, err, "extensions.evaluation_input")
}

func TestPools(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 5000).UTC()
	profile := matchmaking.Profile{Name: "p", Pools: []matchmaking.Pool{{
		Name: "all",
		DoubleRanges: []matchmaking.DoubleRange{
			{DoubleArg: "a", Min: math.Inf(-1), Max: 3, Exclude: matchmaking.ExcludeNone},
			{DoubleArg: "a", Exclude: matchmaking.ExcludeMin},
			{DoubleArg: "a", Exclude: matchmaking.ExcludeMax}, {DoubleArg: "a", Exclude: matchmaking.ExcludeBoth},
		},
		StringEquals:  []matchmaking.StringEquals{{StringArg: "s", Value: "v"}},
		TagsPresent:   []matchmaking.TagPresent{{Tag: "t"}},
		CreatedBefore: now, CreatedAfter: now.Add(-time.Hour),
	}, {Name: "empty"}}}
	for i, m := range convert.FromProfile(profile).GetPools() {
		back, err := convert.ToPool(m)
		require.NoError(t, err)
		require.Equal(t, profile.Pools[i], back)
	}
	for field, pool := range map[string]*openmatch.Pool{
		"double_range_filters[0].exclude": {DoubleRangeFilters: []*openmatch.DoubleRangeFilter{{Exclude: 4}}},
		"created_before":                  {CreatedBefore: &timestamppb.Timestamp{Seconds: math.MaxInt64}},
		"created_after":                   {CreatedAfter: &timestamppb.Timestamp{Nanos: -1}},
		"pool": {
			TagPresentFilters:   make([]*openmatch.TagPresentFilter, convert.MaxFilters),
			StringEqualsFilters: make([]*openmatch.StringEqualsFilter, 1),
		},
	} {
		_, err := convert.ToPool(pool)
		var e *fault.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
	}
}
