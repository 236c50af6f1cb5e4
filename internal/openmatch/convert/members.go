package convert

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// matchOf returns the extension tidemark.match of an assignment. Each player receives one, and package structpb would
// take ten times as long for it as the rest of the message: it is encoded here, in the order of names, as that package
// would.
func matchOf(a *matchmaking.Assignment) *anypb.Any {
	m := make(members, 0, 128)
	m.add("matchId", textValue(a.MatchID))
	if len(a.Opponents) > 0 {
		m.add("opponents", listValue(a.Opponents))
	}
	m.add("queue", textValue(a.Queue))
	m.add("team", numberValue(float64(a.Team)))
	if len(a.Teammates) > 0 {
		m.add("teammates", listValue(a.Teammates))
	}
	return &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Struct", Value: m}
}

// members is the encoding of a google.protobuf.Struct.
type members []byte

// The numbers of the fields of Struct, its entries, Value and ListValue.
const (
	structFields, entryKey, entryValue       = 1, 1, 2
	valueNumber, valueText, valueList, items = 2, 3, 6, 1
)

func (m *members) add(name string, value []byte) {
	entry := appendBytes(make([]byte, 0, len(name)+len(value)+8), entryKey, name)
	entry = appendBytes(entry, entryValue, value)
	*m = appendBytes(*m, structFields, entry)
}

func textValue(text string) []byte { return appendBytes(make([]byte, 0, len(text)+4), valueText, text) }

func numberValue(n float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(make([]byte, 0, 9), valueNumber, protowire.Fixed64Type),
		math.Float64bits(n))
}

func listValue(texts []string) []byte {
	var list []byte
	for _, text := range texts {
		list = appendBytes(list, items, textValue(text))
	}
	return appendBytes(nil, valueList, list)
}

// appendBytes appends a field.
func appendBytes[T string | []byte](to []byte, number protowire.Number, value T) []byte {
	to = protowire.AppendVarint(protowire.AppendTag(to, number, protowire.BytesType), uint64(len(value)))
	return append(to, value...)
}
