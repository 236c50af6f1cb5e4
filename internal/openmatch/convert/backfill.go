package convert

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// ToBackfillSpec returns the spec of a backfill. Its Anys come back from [FromBackfill] byte for byte; unknown fields of
// the message are not part of it.
func ToBackfillSpec(b *openmatch.Backfill) matchmaking.BackfillSpec {
	return matchmaking.BackfillSpec{
		SearchFields: toSearchFields(b.GetSearchFields()), Extensions: changed(b.GetExtensions(), exactJSON),
		PersistentField: changed(b.GetPersistentField(), exactJSON),
	}
}

// FromBackfill returns a backfill as a message.
func FromBackfill(b *matchmaking.Backfill) *openmatch.Backfill {
	m := &openmatch.Backfill{
		Id: b.ID, Extensions: FromExtensions(b.Extensions), PersistentField: FromExtensions(b.PersistentField),
		CreateTime: fromTime(b.CreateTime), Generation: b.Generation,
	}
	f := b.SearchFields
	if len(f.Tags)+len(f.DoubleArgs)+len(f.StringArgs) > 0 {
		m.SearchFields = fromSearchFields(f)
	}
	return m
}

// ToAllocation returns the assignment of a director or a game server. Its Anys come back from [FromAssignment] byte for
// byte.
func ToAllocation(a *openmatch.Assignment) matchmaking.Allocation {
	return matchmaking.Allocation{Connection: a.GetConnection(), Extensions: changed(a.GetExtensions(), exactJSON)}
}

// exactJSON is toJSON, except that an Any of a known type whose bytes can't be restored from that JSON is an object with
// its bytes in base64, which fromJSON reads:
//
//	{"@type": "type.googleapis.com/google.protobuf.Value", "@bytes": "EQAAAAAAAPh/"}
func exactJSON(a *anypb.Any) json.RawMessage {
	text, err := toJSON(a)
	if err == nil {
		if same, ok := typed(text); ok && string(same.GetValue()) == string(a.GetValue()) {
			return text
		}
	}
	text, err = json.Marshal(map[string]any{typeMember: a.GetTypeUrl(), bytesMember: a.GetValue()})
	if err != nil {
		panic(err) // strings and bytes can always be encoded
	}
	return text
}
