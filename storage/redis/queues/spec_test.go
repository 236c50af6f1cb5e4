package queues

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// specOf returns the spec of a ticket of Open Match's API.
func specOf(t require.TestingT, extensions map[string]proto.Message) matchmaking.Spec {
	m := &openmatch.Ticket{
		SearchFields: &openmatch.SearchFields{
			DoubleArgs: map[string]float64{"skill": 1500, "odd": math.Inf(-1)},
			StringArgs: map[string]string{"language": "ja"}, Tags: []string{"mode:casual"},
		},
		Extensions: map[string]*anypb.Any{},
	}
	for name, v := range extensions {
		a := new(anypb.Any)
		require.NoError(t, anypb.MarshalFrom(a, v, proto.MarshalOptions{Deterministic: true}))
		m.Extensions[name] = a
	}
	spec, err := convert.ToSpec(m)
	require.NoError(t, err)
	return spec
}

func value(t require.TestingT, v any) proto.Message {
	m, err := structpb.NewValue(v)
	require.NoError(t, err)
	return m
}

// TestBytesOfSpecs holds the stored form: the servers of two successive versions read each other's tickets.
func TestBytesOfSpecs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec  matchmaking.Spec
		owner string
		want  string
	}{
		"a message": {
			specOf(t, map[string]proto.Message{"name": wrapperspb.String("Ann")}), "",
			"0a8301223f0a0e0a036f646411000000000000f0ff0a100a05736b696c6c110000000000709740120e0a086c616e" +
				"677561676512026a611a0b6d6f64653a63617375616c2a400a046e616d6512380a2f747970652e676f6f676c6561" +
				"7069732e636f6d2f676f6f676c652e70726f746f6275662e537472696e6756616c756512050a03416e6e",
		},
		"a message, and an owner": {
			specOf(t, map[string]proto.Message{"name": wrapperspb.String("Ann")}), "ann",
			"0a8301223f0a0e0a036f646411000000000000f0ff0a100a05736b696c6c110000000000709740120e0a086c616e" +
				"677561676512026a611a0b6d6f64653a63617375616c2a400a046e616d6512380a2f747970652e676f6f676c6561" +
				"7069732e636f6d2f676f6f676c652e70726f746f6275662e537472696e6756616c756512050a03416e6e3203616e" +
				"6e",
		},
		"a message with criteria and sizes": {
			specOf(t, map[string]proto.Message{
				"tidemark.criteria": value(t,
					[]any{map[string]any{"name": "skill", "minValue": 1000, "maxValue": 2000}}),
				"tidemark.match": value(t, map[string]any{"numTeams": 2, "teamSize": 3, "players": 2}),
			}), "",
			"0ad302223f0a0e0a036f646411000000000000f0ff0a100a05736b696c6c110000000000709740120e0a086c616e" +
				"677561676512026a611a0b6d6f64653a63617375616c2a87010a11746964656d61726b2e63726974657269611272" +
				"0a29747970652e676f6f676c65617069732e636f6d2f676f6f676c652e70726f746f6275662e56616c7565124532" +
				"430a412a3f0a150a086d617856616c75651209110000000000409f400a150a086d696e56616c7565120911000000" +
				"0000408f400a0f0a046e616d6512071a05736b696c6c2a85010a0e746964656d61726b2e6d6174636812730a2974" +
				"7970652e676f6f676c65617069732e636f6d2f676f6f676c652e70726f746f6275662e56616c756512462a440a15" +
				"0a086e756d5465616d7312091100000000000000400a140a07706c617965727312091100000000000000400a150a" +
				"087465616d53697a6512091100000000000008401a330a190a05736b696c6c110000000000408f40190000000000" +
				"409f4012100a05736b696c6c110000000000709740180220032802",
		},
		"a message without statistics": {
			specOf(t, map[string]proto.Message{"tidemark.statistics": value(t, []any{})}), "",
			"0a8901223f0a0e0a036f646411000000000000f0ff0a100a05736b696c6c110000000000709740120e0a086c616e" +
				"677561676512026a611a0b6d6f64653a63617375616c2a460a13746964656d61726b2e7374617469737469637312" +
				"2f0a29747970652e676f6f676c65617069732e636f6d2f676f6f676c652e70726f746f6275662e56616c75651202" +
				"32001a00",
		},
		"an empty message": {matchmaking.Spec{Sent: []byte{}}, "", "0a00"},
		"nothing":          {matchmaking.Spec{}, "", ""},
		"a trace":          {matchmaking.Spec{Trace: "00-0a"}, "", "3a0530302d3061"},
		"JSON": {
			matchmaking.Spec{
				SearchFields: matchmaking.SearchFields{
					DoubleArgs: matchmaking.Doubles{"skill": 1500, "odd": math.Inf(-1)},
					StringArgs: map[string]string{"language": "ja"}, Tags: []string{"mode:casual"},
				},
				Criteria:   []matchmaking.Criterion{{Name: "skill", MinValue: 1000, MaxValue: 2000}},
				Statistics: []matchmaking.Statistic{{Name: "skill", Value: 1500}},
				NumTeams:   2, TeamSize: 3, Players: 2,
				Extensions: map[string]json.RawMessage{
					"a": json.RawMessage(`{ "b": [1.0] }`), "c": json.RawMessage("null"),
				},
				PersistentField: map[string]json.RawMessage{"p": json.RawMessage("1")},
			}, "ann",
			"123f0a0e0a036f646411000000000000f0ff0a100a05736b696c6c110000000000709740120e0a086c616e677561" +
				"676512026a611a0b6d6f64653a63617375616c1a330a190a05736b696c6c110000000000408f4019000000000040" +
				"9f4012100a05736b696c6c11000000000070974018022003280222130a0161120e7b202262223a205b312e305d20" +
				"7d22090a016312046e756c6c2a060a01701201313203616e6e",
		},
	} {
		encoded, err := encodeTicket(&matchmaking.Ticket{Spec: c.spec, Owner: c.owner})
		require.NoError(t, err, name)
		require.Equal(t, c.want, hex.EncodeToString(encoded), name)
		var decoded matchmaking.Ticket
		require.NoError(t, decodeSpec(encoded, &decoded), name)
		require.Equal(t, matchmaking.Ticket{Spec: c.spec, Owner: c.owner}, decoded, name)
	}
}

// TestSpecsComeBack checks that stored specs are returned unchanged, and that Size is the stored size without the
// owner.
func TestSpecsComeBack(t *testing.T) {
	t.Parallel()
	names, number := rapid.StringMatching("[a-z]{1,4}"), rapid.Float64Range(-1e9, 1e9)
	raw := rapid.Map(rapid.String(), func(s string) json.RawMessage {
		text, err := json.Marshal(s)
		require.NoError(t, err)
		return text
	})
	rapid.Check(t, func(t *rapid.T) {
		s := matchmaking.Spec{
			NumTeams: rapid.IntRange(0, 100).Draw(t, "teams"), TeamSize: rapid.IntRange(0, 100).Draw(t, "size"),
			Players: rapid.IntRange(0, 100).Draw(t, "players"),
			SearchFields: matchmaking.SearchFields{
				DoubleArgs: rapid.MapOfN(names, number, 0, 3).Draw(t, "doubles"),
				StringArgs: rapid.MapOfN(names, rapid.String(), 0, 3).Draw(t, "strings"),
				Tags:       rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "tags"),
			},
			Criteria: []matchmaking.Criterion{{Name: rapid.String().Draw(t, "criterion"),
				MinValue: number.Draw(t, "min")}},
		}
		for range rapid.IntRange(0, 2).Draw(t, "statistics") {
			s.Statistics = append(s.Statistics, matchmaking.Statistic{Name: names.Draw(t, "name"),
				Value: number.Draw(t, "v")})
		}
		if rapid.Bool().Draw(t, "sent") {
			m := &openmatch.Ticket{SearchFields: &openmatch.SearchFields{
				Tags: s.SearchFields.Tags, DoubleArgs: s.SearchFields.DoubleArgs, StringArgs: s.SearchFields.StringArgs,
			}}
			m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
			var err error
			s.Sent, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
			require.NoError(t, err)
		} else {
			s.Extensions = rapid.MapOfN(names, raw, 1, 3).Draw(t, "extensions")
			s.PersistentField = rapid.MapOfN(names, raw, 1, 3).Draw(t, "persistent")
		}
		want, err := json.Marshal(s)
		require.NoError(t, err)
		owner := rapid.String().Draw(t, "owner")
		sent := matchmaking.Ticket{Spec: s, Owner: owner, NoChannel: rapid.Bool().Draw(t, "no channel")}
		encoded, err := encodeTicket(&sent)
		require.NoError(t, err)
		var got matchmaking.Ticket
		require.NoError(t, decodeSpec(encoded, &got))
		require.Equal(t, owner, got.Owner)
		require.Equal(t, sent.NoChannel, got.NoChannel)
		require.True(t, bytes.Equal(s.Sent, got.Sent))
		text, err := json.Marshal(got.Spec)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(text))
		alone, err := encodeSpec(&s)
		require.NoError(t, err)
		require.Equal(t, len(alone), (*Store)(nil).Size(&s))
	})
}

// TestDamagedSpecs decodes values that encodeSpec doesn't return.
func TestDamagedSpecs(t *testing.T) {
	t.Parallel()
	damaged := func(s matchmaking.Spec) string {
		text, err := encodeSpec(&s)
		require.NoError(t, err)
		return string(text)
	}
	nan := math.NaN()
	for _, broken := range []string{"{}", "\x00", "\x0a\x01\x00",
		damaged(matchmaking.Spec{Extensions: map[string]json.RawMessage{"x": []byte("\"\x01\"")}}),
		damaged(matchmaking.Spec{PersistentField: map[string]json.RawMessage{"x": []byte("\"\xff\"")}}),
		damaged(matchmaking.Spec{Criteria: []matchmaking.Criterion{{Name: "a", MinValue: nan}}}),
		damaged(matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "a", Value: math.Inf(1)}}}),
	} {
		require.Error(t, decodeSpec([]byte(broken), new(matchmaking.Ticket)), "%q", broken)
	}
}

// TestSizesOfThePage checks the sizes in docs/redis/queues.md.
func TestSizesOfThePage(t *testing.T) {
	t.Parallel()
	sent := func(extensions map[string]proto.Message) matchmaking.Spec {
		m := &openmatch.Ticket{SearchFields: &openmatch.SearchFields{
			DoubleArgs: map[string]float64{"skill": 1500}, Tags: []string{"mode:casual", "region:asia"},
		}, Extensions: map[string]*anypb.Any{}}
		for name, v := range extensions {
			var err error
			m.Extensions[name], err = anypb.New(v)
			require.NoError(t, err)
		}
		spec, err := convert.ToSpec(m)
		require.NoError(t, err)
		return spec
	}
	rated := matchmaking.Spec{
		SearchFields: matchmaking.SearchFields{
			DoubleArgs: matchmaking.Doubles{"skill": 1500, "ping": 40}, StringArgs: map[string]string{"region": "asia"},
		},
		Criteria:   []matchmaking.Criterion{{Name: "skill", MinValue: 1000, MaxValue: 2000}},
		Statistics: []matchmaking.Statistic{{Name: "skill", Value: 1500}, {Name: "ping", Value: 40}},
	}
	page, err := os.ReadFile("../../../docs/redis/queues.md")
	require.NoError(t, err)
	for row, spec := range map[string]matchmaking.Spec{
		"Open Match: one number, two tags": sent(nil),
		"Open Match: the same, and two strings as extensions": sent(map[string]proto.Message{
			"name": wrapperspb.String("Ann"), "language": wrapperspb.String("ja"),
		}),
		"JSON: two numbers, a text, a criterion, two statistics": rated,
	} {
		require.Contains(t, string(page), fmt.Sprintf("\n| %s | %d |\n", row, (*Store)(nil).Size(&spec)))
	}
}

// FuzzDecodeSpec decodes any bytes as a stored ticket: nothing panics, and a decoded ticket can be encoded in each
// form.
func FuzzDecodeSpec(f *testing.F) {
	for _, seed := range []string{"", "\x0a\x00", "\x0a\x0c\x22\x0a\x0a\x08\x0a\x01a\x11\x00\x00\x00\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var found matchmaking.Ticket
		if decodeSpec(data, &found) != nil {
			return
		}
		text, err := json.Marshal(convert.WithExtensions(found.Spec))
		require.NoError(t, err, "a damaged ticket would fail each answer that it is part of")
		require.True(t, strictjson.Valid(text))
		_, err = proto.Marshal(convert.FromTicket(&found))
		require.NoError(t, err)
	})
}
