package convert_test

import (
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
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
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

// TestExtensions converts Anys to JSON and back.
func TestExtensions(t *testing.T) {
	t.Parallel()
	const types = `"@type":"type.googleapis.com/`
	for name, c := range map[string]struct {
		any  *anypb.Any
		json string
	}{
		"text":      {anyOf(t, wrapperspb.String("eu")), `{` + types + `google.protobuf.StringValue","value":"eu"}`},
		"large":     {anyOf(t, wrapperspb.Int64(math.MaxInt64)), `{` + types + `google.protobuf.Int64Value","value":"9223372036854775807"}`},
		"no number": {anyOf(t, wrapperspb.Double(math.NaN())), `{` + types + `google.protobuf.DoubleValue","value":"NaN"}`},
		"duration":  {anyOf(t, durationpb.New(1500*time.Millisecond)), `{` + types + `google.protobuf.Duration","value":"1.500s"}`},
		"time":      {anyOf(t, timestamppb.New(time.Unix(1, 0))), `{` + types + `google.protobuf.Timestamp","value":"1970-01-01T00:00:01Z"}`},
		"nothing":   {anyOf(t, &emptypb.Empty{}), `{` + types + `google.protobuf.Empty"}`},
		"value":     {valueOf(t, []any{1.0, "a", nil}), `{` + types + `google.protobuf.Value","value":[1,"a",null]}`},
		"score":     {anyOf(t, &openmatch.DefaultEvaluationCriteria{Score: 2}), `{` + types + `openmatch.DefaultEvaluationCriteria","score":2}`},
		"unknown":   {&anypb.Any{TypeUrl: "mygame.example/mygame.Hero", Value: []byte{0, 255}}, `{"@type":"mygame.example/mygame.Hero","value":"AP8="}`},
		"in an any": {anyOf(t, anyOf(t, wrapperspb.Bool(true))), ""},
		"no type":   {&anypb.Any{Value: []byte{1}}, `{"@type":"","value":"AQ=="}`},
		"empty":     {&anypb.Any{}, `{"@type":"","value":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			extensions, err := convert.ToExtensions(map[string]*anypb.Any{"x": c.any})
			require.NoError(t, err)
			if c.json != "" {
				require.JSONEq(t, c.json, string(extensions["x"]))
			}
			back := convert.FromExtensions(extensions)["x"]
			require.True(t, proto.Equal(c.any, back), "%v", back)
		})
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

func TestTicketFromMessage(t *testing.T) {
	t.Parallel()
	m := &openmatch.Ticket{
		Id:           "t",
		SearchFields: &openmatch.SearchFields{DoubleArgs: map[string]float64{"b": 2, "a": 1, "nan": math.NaN(), "inf": math.Inf(1), "": 3}, Tags: []string{"x"}},
		Extensions: map[string]*anypb.Any{
			"tidemark.criteria": valueOf(t, []any{map[string]any{"name": "a", "minValue": -1.0, "maxValue": 5.5}}),
			"tidemark.match":    anyOf(t, &structpb.Struct{Fields: map[string]*structpb.Value{"numTeams": structpb.NewNumberValue(2), "teamSize": structpb.NewNumberValue(3)}}),
			"criteria":          anyOf(t, wrapperspb.Bool(true)),
		},
		PersistentField: map[string]*anypb.Any{"p": anyOf(t, wrapperspb.Bool(true))},
		CreateTime:      &timestamppb.Timestamp{Seconds: 1, Nanos: 1000},
	}
	got, err := convert.ToTicket(m)
	require.NoError(t, err)
	require.Equal(t, "t", got.ID)
	require.Equal(t, []matchmaking.Statistic{{Name: "a", Value: 1}, {Name: "b", Value: 2}}, got.Statistics)
	require.Equal(t, []matchmaking.Criterion{{Name: "a", MinValue: -1, MaxValue: 5.5}}, got.Criteria)
	require.Equal(t, [2]int{2, 3}, [2]int{got.NumTeams, got.TeamSize})
	require.True(t, math.IsNaN(got.SearchFields.DoubleArgs["nan"]))
	require.Equal(t, time.Unix(1, 1000).UTC(), got.CreateTime)
	require.Len(t, got.Extensions, 3)
	require.True(t, proto.Equal(m, convert.FromTicket(got)))
}

func TestMessageFromTicket(t *testing.T) {
	t.Parallel()
	m := convert.FromTicket(&matchmaking.Ticket{ID: "t", Spec: matchmaking.Spec{
		Criteria: []matchmaking.Criterion{{Name: "a", MinValue: 1, MaxValue: 2}}, Statistics: []matchmaking.Statistic{{Name: "a", Value: 3}},
		NumTeams: 2,
	}, Assignment: &matchmaking.Assignment{Connection: "h:1", Extensions: map[string]json.RawMessage{"e": json.RawMessage("1")}}})
	want := &openmatch.Ticket{
		Id: "t", SearchFields: &openmatch.SearchFields{},
		Assignment: &openmatch.Assignment{Connection: "h:1", Extensions: map[string]*anypb.Any{"e": valueOf(t, 1)}},
		Extensions: map[string]*anypb.Any{
			"tidemark.criteria":   valueOf(t, []any{map[string]any{"name": "a", "minValue": 1, "maxValue": 2}}),
			"tidemark.statistics": valueOf(t, []any{map[string]any{"name": "a", "value": 3}}),
			"tidemark.match":      valueOf(t, map[string]any{"numTeams": 2}),
		},
	}
	require.True(t, proto.Equal(want, m), "%v", m)
}

// TestRefusedTickets: the error names the field.
func TestRefusedTickets(t *testing.T) {
	t.Parallel()
	extension := func(name string, a *anypb.Any) *openmatch.Ticket {
		return &openmatch.Ticket{Extensions: map[string]*anypb.Any{name: a}}
	}
	for name, c := range map[string]struct {
		ticket *openmatch.Ticket
		field  string
	}{
		"a value without one":   {extension("x", anyOf(t, &structpb.Value{})), "extensions.x"},
		"garbage":               {extension("x", &anypb.Any{TypeUrl: "a/google.protobuf.BoolValue", Value: []byte{8}}), "extensions.x"},
		"a persistent value":    {&openmatch.Ticket{PersistentField: map[string]*anypb.Any{"x": anyOf(t, &structpb.Value{})}}, "persistent_field.x"},
		"criteria of a type":    {extension("tidemark.criteria", anyOf(t, wrapperspb.Bool(true))), "extensions.tidemark.criteria"},
		"criteria of no type":   {extension("tidemark.criteria", &anypb.Any{}), "extensions.tidemark.criteria"},
		"criteria of text":      {extension("tidemark.criteria", valueOf(t, "a")), "extensions.tidemark.criteria"},
		"half a criterion":      {extension("tidemark.criteria", valueOf(t, []any{map[string]any{"name": "a", "minValue": 1}})), "extensions.tidemark.criteria"},
		"an unknown member":     {extension("tidemark.criteria", valueOf(t, []any{map[string]any{"nam": "a"}})), "extensions.tidemark.criteria"},
		"half a statistic":      {extension("tidemark.statistics", valueOf(t, []any{map[string]any{"name": "a"}})), "extensions.tidemark.statistics"},
		"half a team":           {extension("tidemark.match", valueOf(t, map[string]any{"teamSize": 1.5})), "extensions.tidemark.match"},
		"a list of sizes":       {extension("tidemark.match", valueOf(t, []any{1})), "extensions.tidemark.match"},
		"an invalid time":       {&openmatch.Ticket{CreateTime: &timestamppb.Timestamp{Nanos: -1}}, "create_time"},
		"an assignment's value": {&openmatch.Ticket{Assignment: &openmatch.Assignment{Extensions: map[string]*anypb.Any{"x": anyOf(t, &structpb.Value{})}}}, "assignment.extensions.x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := convert.ToTicket(c.ticket)
			var e *fault.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, fault.Invalid, e.Kind)
			require.Equal(t, c.field, e.Field)
			require.Contains(t, e.Detail, c.field)
		})
	}
}

func TestProposals(t *testing.T) {
	t.Parallel()
	a, b := &matchmaking.Ticket{ID: "a"}, &matchmaking.Ticket{ID: "b"}
	known := map[string]*matchmaking.Ticket{"a": a, "b": b}
	p := matchmaking.Proposal{ID: "m", Teams: [][]*matchmaking.Ticket{{a}, {b}}, Score: 1.5}
	m := convert.FromProposal(p, "profile")
	require.Equal(t, "m", m.GetMatchId())
	require.Equal(t, "profile", m.GetMatchProfile())
	require.Len(t, m.GetTickets(), 2)
	back, err := convert.ToProposal(m, known)
	require.NoError(t, err)
	require.Equal(t, [][]*matchmaking.Ticket{{a, b}}, back.Teams)
	require.InDelta(t, 1.5, back.Score, 0)
	require.True(t, proto.Equal(m, convert.FromProposal(back, "profile")))

	for field, wrong := range map[string]*openmatch.Match{
		"tickets":                     {},
		"tickets[0].id":               {Tickets: []*openmatch.Ticket{nil}},
		"tickets[1].id":               {Tickets: []*openmatch.Ticket{{Id: "a"}, {Id: "a"}}},
		"match_id":                    {MatchId: "a b"},
		"backfill":                    {Backfill: &openmatch.Backfill{}},
		"extensions.evaluation_input": {Tickets: m.GetTickets(), Extensions: map[string]*anypb.Any{"evaluation_input": anyOf(t, wrapperspb.Bool(true))}},
		"extensions.x":                {Tickets: m.GetTickets(), Extensions: map[string]*anypb.Any{"x": anyOf(t, &structpb.Value{})}},
	} {
		_, err := convert.ToProposal(wrong, known)
		var e *fault.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
	}
	_, err = convert.ToProposal(nil, nil)
	require.Error(t, err)
}

func TestPools(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 5000).UTC()
	profile := matchmaking.Profile{Name: "p", Pools: []matchmaking.Pool{{
		Name: "all",
		DoubleRanges: []matchmaking.DoubleRange{
			{DoubleArg: "a", Min: math.Inf(-1), Max: 3, Exclude: matchmaking.ExcludeNone}, {DoubleArg: "a", Exclude: matchmaking.ExcludeMin},
			{DoubleArg: "a", Exclude: matchmaking.ExcludeMax}, {DoubleArg: "a", Exclude: matchmaking.ExcludeBoth},
		},
		StringEquals: []matchmaking.StringEquals{{StringArg: "s", Value: "v"}}, TagsPresent: []matchmaking.TagPresent{{Tag: "t"}},
		CreatedBefore: now, CreatedAfter: now.Add(-time.Hour),
	}, {Name: "empty"}}}
	m := convert.FromProfile(profile)
	back, err := convert.ToProfile(m)
	require.NoError(t, err)
	require.Equal(t, profile, back)

	for field, pool := range map[string]*openmatch.Pool{
		"pools[0].double_range_filters[0].exclude": {DoubleRangeFilters: []*openmatch.DoubleRangeFilter{{Exclude: 4}}},
		"pools[0].created_before":                  {CreatedBefore: &timestamppb.Timestamp{Seconds: math.MaxInt64}},
		"pools[0].created_after":                   {CreatedAfter: &timestamppb.Timestamp{Nanos: -1}},
	} {
		_, err := convert.ToProfile(&openmatch.MatchProfile{Pools: []*openmatch.Pool{pool}})
		var e *fault.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
	}
}
