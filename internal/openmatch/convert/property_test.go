package convert_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

func doubles() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1)}))
}

// plain generates values that JSON can represent.
func plain(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), toAny), rapid.Map(rapid.Float64(), toAny),
		rapid.Map(rapid.String(), toAny),
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

func names() *rapid.Generator[string] { return rapid.StringMatching(`[a-z]{1,4}`) }

// anys generates Anys of known types, also malformed, and of unknown types.
func anys() *rapid.Generator[*anypb.Any] {
	return rapid.Custom(func(t *rapid.T) *anypb.Any {
		any := func(m proto.Message) *anypb.Any {
			a := new(anypb.Any)
			require.NoError(t, anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}))
			return a
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return any(structpb.NewNumberValue(doubles().Draw(t, "number")))
		case 1:
			return any(wrapperspb.String(rapid.String().Draw(t, "text")))
		}
		url := rapid.OneOf(rapid.String(),
			rapid.SampledFrom([]string{"", "/", "a/google.protobuf.Any", "a/google.protobuf.Value"}))
		return &anypb.Any{TypeUrl: url.Draw(t, "url"), Value: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")}
	})
}

// unknown adds fields to a message that are not in our .proto files.
func unknown(t *rapid.T, m proto.Message) {
	var fields []byte
	for range rapid.IntRange(0, 2).Draw(t, "unknown fields") {
		fields = protowire.AppendTag(fields, protowire.Number(rapid.IntRange(8, 2000).Draw(t, "number")),
			protowire.BytesType)
		fields = protowire.AppendBytes(fields, rapid.SliceOf(rapid.Byte()).Draw(t, "field"))
	}
	m.ProtoReflect().SetUnknown(fields)
}

// tickets generates tickets that clients can send.
func tickets() *rapid.Generator[*openmatch.Ticket] {
	return rapid.Custom(func(t *rapid.T) *openmatch.Ticket {
		extensions := rapid.MapOfN(names(), anys(), 0, 3)
		m := &openmatch.Ticket{Extensions: extensions.Draw(t, "extensions"),
			PersistentField: extensions.Draw(t, "persistent")}
		unknown(t, m)
		if rapid.Bool().Draw(t, "searchable") {
			m.SearchFields = &openmatch.SearchFields{
				DoubleArgs: rapid.MapOfN(names(), doubles(), 0, 3).Draw(t, "doubles"),
				StringArgs: rapid.MapOfN(names(), rapid.String(), 0, 3).Draw(t, "strings"),
				Tags:       rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "tags"),
			}
			unknown(t, m.SearchFields)
		}
		decoded := new(openmatch.Ticket) // without empty values
		require.NoError(t, proto.Unmarshal(bytesOf(t, m), decoded))
		return decoded
	})
}

// TestMessagesComeBack: a message from a client is returned unchanged.
func TestMessagesComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sent := tickets().Draw(t, "ticket")
		spec, err := convert.ToSpec(sent)
		require.NoError(t, err)
		sent.Id, sent.CreateTime = "t", &timestamppb.Timestamp{Seconds: 1}
		back := convert.FromTicket(&matchmaking.Ticket{ID: "t", CreateTime: sent.GetCreateTime().AsTime(), Spec: spec})
		require.True(t, proto.Equal(sent, back), "%v\n%v", sent, back)
		require.Equal(t, bytesOf(t, sent), bytesOf(t, back))
	})
}

// TestBackfillsComeBack: the Anys of backfills, and of assignments of directors, are returned byte for byte.
func TestBackfillsComeBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ticket := tickets().Draw(t, "fields")
		sent := &openmatch.Backfill{
			Id: "b", SearchFields: ticket.GetSearchFields(), Extensions: ticket.GetExtensions(),
			PersistentField: ticket.GetPersistentField(), CreateTime: &timestamppb.Timestamp{Seconds: 1}, Generation: 7,
		}
		if f := sent.GetSearchFields(); f != nil {
			f.ProtoReflect().SetUnknown(nil)
			if proto.Size(f) == 0 {
				sent.SearchFields = nil
			}
		}
		back := convert.FromBackfill(&matchmaking.Backfill{
			ID: "b", BackfillSpec: convert.ToBackfillSpec(sent), CreateTime: sent.GetCreateTime().AsTime(), Generation: 7,
		})
		require.Equal(t, bytesOf(t, sent), bytesOf(t, back))
		assigned := &openmatch.Assignment{Connection: "h:1", Extensions: ticket.GetExtensions()}
		a := convert.ToAllocation(assigned)
		given := convert.FromAssignment(&matchmaking.Assignment{Connection: a.Connection, Extensions: a.Extensions})
		require.Equal(t, bytesOf(t, assigned), bytesOf(t, given))
	})
}

func bytesOf(t *rapid.T, m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	require.NoError(t, err)
	return b
}

func text(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return string(text)
}

// TestJSONComesBack: JSON from a client is unchanged after a conversion to the message for Open Match's clients and
// back; plain JSON becomes the JSON of a Value.
func TestJSONComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.Float64Range(-1e9, 1e9)
		sent := matchmaking.Spec{
			NumTeams: rapid.IntRange(0, 100).Draw(t, "teams"), TeamSize: rapid.IntRange(0, 100).Draw(t, "size"),
			Players: rapid.IntRange(0, 100).Draw(t, "players"),
			SearchFields: matchmaking.SearchFields{DoubleArgs: rapid.MapOfN(names(), doubles(), 0, 3).Draw(t,
				"doubles")},
			Extensions: map[string]json.RawMessage{"x": json.RawMessage(text(t, plain(2).Draw(t, "extension")))},
		}
		if len(sent.SearchFields.DoubleArgs) == 0 {
			sent.SearchFields.DoubleArgs = nil
		}
		for range rapid.IntRange(0, 3).Draw(t, "criteria") {
			sent.Criteria = append(sent.Criteria, matchmaking.Criterion{
				Name: rapid.String().Draw(t, "name"), MinValue: number.Draw(t, "min"), MaxValue: number.Draw(t, "max"),
			})
		}
		for range rapid.IntRange(0, 3).Draw(t, "statistics") {
			sent.Statistics = append(sent.Statistics, matchmaking.Statistic{Name: rapid.String().Draw(t, "name"),
				Value: number.Draw(t, "value")})
		}
		again, err := convert.ToSpec(convert.FromTicket(&matchmaking.Ticket{Spec: sent}))
		require.NoError(t, err)
		seen := convert.WithExtensions(again)
		var packed struct{ Value json.RawMessage }
		require.NoError(t, json.Unmarshal(seen.Extensions["x"], &packed))
		require.JSONEq(t, string(sent.Extensions["x"]), string(packed.Value))
		sent.Extensions, seen.Extensions = nil, nil
		require.Equal(t, text(t, sent), text(t, seen))
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
