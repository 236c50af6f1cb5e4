package convert_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
)

func doubles() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}))
}

// plain generates values that JSON can represent.
func plain(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), toAny), rapid.Map(rapid.Float64(), toAny), rapid.Map(rapid.String(), toAny),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(
		leaf, rapid.Map(rapid.SliceOfN(plain(depth-1), 0, 3), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.String(), plain(depth-1), 0, 3), func(v map[string]any) any { return v }),
	)
}

func toAny[T any](v T) any { return v }

// anys generates Anys of known types, and of unknown types with any bytes.
func anys() *rapid.Generator[*anypb.Any] {
	return rapid.Custom(func(t *rapid.T) *anypb.Any {
		var m proto.Message
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			value, err := structpb.NewValue(plain(2).Draw(t, "value"))
			if err != nil {
				t.Fatal(err)
			}
			m = value
		case 1:
			m = wrapperspb.String(rapid.String().Draw(t, "text"))
		case 2:
			m = wrapperspb.Int64(rapid.Int64().Draw(t, "integer"))
		case 3:
			m = wrapperspb.Bytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		case 4:
			m = &openmatch.DefaultEvaluationCriteria{Score: doubles().Draw(t, "score")}
		default:
			typeURL := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "/", "a/google.protobuf.Any", "a/google.protobuf.FieldMask"}))
			url := typeURL.Draw(t, "url")
			if len(url) > 0 && url[len(url)-1] != '/' && knownName(url) {
				url += "X"
			}
			return &anypb.Any{TypeUrl: url, Value: rapid.SliceOfN(rapid.Byte(), 1, -1).Draw(t, "any bytes")}
		}
		a := new(anypb.Any)
		if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
			t.Fatal(err)
		}
		return a
	})
}

// knownName reports whether a URL is that of a Value. rapid is unlikely to generate one.
func knownName(url string) bool {
	return (&anypb.Any{TypeUrl: url}).MessageIs((*structpb.Value)(nil))
}

func names() *rapid.Generator[string] { return rapid.StringMatching(`[a-z]{1,4}`) }

// TestTicketRoundTrip: a message that is converted to a ticket and back is the same.
func TestTicketRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		extensions := rapid.MapOfN(names(), anys(), 0, 3)
		m := &openmatch.Ticket{
			Id: names().Draw(t, "id"), Extensions: extensions.Draw(t, "extensions"), PersistentField: extensions.Draw(t, "persistent"),
			SearchFields: &openmatch.SearchFields{
				DoubleArgs: rapid.MapOfN(names(), doubles(), 0, 3).Draw(t, "doubles"),
				StringArgs: rapid.MapOfN(names(), rapid.String(), 0, 3).Draw(t, "strings"),
				Tags:       rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "tags"),
			},
			CreateTime: &timestamppb.Timestamp{
				Seconds: rapid.Int64Range(0, 253402300799).Draw(t, "s"), Nanos: rapid.Int32Range(0, 999_999_999).Draw(t, "ns"),
			},
		}
		wire, err := proto.Marshal(m)
		require.NoError(t, err)
		m = new(openmatch.Ticket) // as it is decoded, without what is empty
		require.NoError(t, proto.Unmarshal(wire, m))

		ticket, err := convert.ToTicket(m)
		require.NoError(t, err)
		back := convert.FromTicket(stored(t, ticket))
		require.True(t, proto.Equal(m, back), "%v\n%v", m, back)
		again, err := convert.ToTicket(back)
		require.NoError(t, err)
		require.Equal(t, jsonOf(t, ticket.Spec), jsonOf(t, again.Spec))
	})
}

// stored returns the ticket as the storage returns it, which keeps its spec as JSON.
func stored(t *rapid.T, ticket *matchmaking.Ticket) *matchmaking.Ticket {
	read := *ticket
	read.Spec = matchmaking.Spec{}
	require.NoError(t, json.Unmarshal([]byte(jsonOf(t, ticket.Spec)), &read.Spec))
	return &read
}

func jsonOf(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// TestSpecRoundTrip: a spec that is converted to a message and back is the same, apart from extensions: their JSON becomes
// that of a Value.
func TestSpecRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-1e9, 1e9)
		spec := matchmaking.Spec{
			NumTeams: rapid.IntRange(0, 100).Draw(t, "teams"), TeamSize: rapid.IntRange(0, 100).Draw(t, "size"),
			Players:      rapid.IntRange(0, 100).Draw(t, "players"),
			SearchFields: matchmaking.SearchFields{DoubleArgs: rapid.MapOfN(names(), doubles(), 0, 3).Draw(t, "doubles")},
		}
		for range rapid.IntRange(0, 3).Draw(t, "criteria") {
			spec.Criteria = append(spec.Criteria, matchmaking.Criterion{
				Name: rapid.String().Draw(t, "name"), MinValue: number.Draw(t, "min"), MaxValue: number.Draw(t, "max"),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "statistics") {
			spec.Statistics = append(spec.Statistics, matchmaking.Statistic{Name: rapid.String().Draw(t, "name"), Value: number.Draw(t, "value")})
		}
		back, err := convert.ToSpec(convert.FromTicket(&matchmaking.Ticket{Spec: spec}))
		require.NoError(t, err)
		back.Extensions = nil
		require.Equal(t, jsonOf(t, spec), jsonOf(t, back))

		value := plain(2).Draw(t, "extension")
		given := map[string]json.RawMessage{"x": json.RawMessage(jsonOf(t, value))}
		once, err := convert.ToExtensions(convert.FromExtensions(given))
		require.NoError(t, err)
		var packed struct{ Value json.RawMessage }
		require.NoError(t, json.Unmarshal(once["x"], &packed))
		require.JSONEq(t, string(given["x"]), string(packed.Value))
		twice, err := convert.ToExtensions(convert.FromExtensions(once))
		require.NoError(t, err)
		require.Equal(t, string(once["x"]), string(twice["x"]))
	})
}

// TestPoolRoundTrip: a message that is converted to a pool and back is the same.
func TestPoolRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &openmatch.Pool{Name: rapid.String().Draw(t, "name")}
		for range rapid.IntRange(0, 3).Draw(t, "ranges") {
			m.DoubleRangeFilters = append(m.DoubleRangeFilters, &openmatch.DoubleRangeFilter{
				DoubleArg: names().Draw(t, "arg"), Min: doubles().Draw(t, "min"), Max: doubles().Draw(t, "max"),
				Exclude: openmatch.DoubleRangeFilter_Exclude(rapid.IntRange(0, 3).Draw(t, "exclude")),
			})
		}
		pool, err := convert.ToPool(m)
		require.NoError(t, err)
		require.True(t, proto.Equal(m, convert.FromPool(pool)))
	})
}

// FuzzTicket reads any bytes as a ticket: conversion never panics, and what it accepts can be converted back.
func FuzzTicket(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0a\x02t1\x2a\x0b\x0a\x01e\x12\x06\x0a\x01u\x12\x01\x07"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(openmatch.Ticket)
		if proto.Unmarshal(data, m) != nil {
			return
		}
		ticket, err := convert.ToTicket(m)
		if err != nil {
			return
		}
		again, err := convert.ToTicket(convert.FromTicket(ticket))
		require.NoError(t, err)
		require.Equal(t, len(ticket.Extensions), len(again.Extensions))
	})
}
