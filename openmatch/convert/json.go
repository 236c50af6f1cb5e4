package convert

import (
	"encoding/json"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// JSON is what a ticket asks for, as it is in JSON bodies. Extensions and PersistentField are JSON values of the
// caller's own, by name; a protobuf Any is an object with "@type".
type JSON struct {
	SearchFields    matchmaking.SearchFields   `json:"searchFields,omitzero"`
	Criteria        []matchmaking.Criterion    `json:"criteria,omitempty"`
	Statistics      []matchmaking.Statistic    `json:"statistics,omitempty"`
	NumTeams        int                        `json:"numTeams,omitempty"`
	TeamSize        int                        `json:"teamSize,omitempty"`
	Players         int                        `json:"players,omitempty"`
	Extensions      map[string]json.RawMessage `json:"extensions,omitempty"`
	PersistentField map[string]json.RawMessage `json:"persistentField,omitempty"`
}

// FromJSON returns the spec of a ticket that was sent as JSON. It keeps the JSON of extensions as it is. It fails for
// text that isn't UTF-8.
func FromJSON(j JSON) (matchmaking.Spec, error) {
	spec := matchmaking.Spec{
		SearchFields: j.SearchFields, Criteria: j.Criteria, Statistics: j.Statistics, NumTeams: j.NumTeams,
		TeamSize: j.TeamSize,
		Players:  j.Players,
	}
	m := storedOf(spec)
	m.Extensions, m.PersistentField = changed(j.Extensions, asBytes), changed(j.PersistentField, asBytes)
	var err error
	if spec.Message, err = marshal(m); err != nil {
		return matchmaking.Spec{}, invalid("ticket", "%v", err)
	}
	return spec, nil
}

// ToJSON returns a spec as JSON. An Any that JSON can't represent, such as a NaN in a google.protobuf.Value, is written
// like one of an unknown type.
func ToJSON(s matchmaking.Spec) JSON {
	j := JSON{
		SearchFields: s.SearchFields, Criteria: s.Criteria, Statistics: s.Statistics, NumTeams: s.NumTeams,
		TeamSize: s.TeamSize, Players: s.Players,
	}
	sent, m := messageOf(s)
	if sent != nil {
		j.Extensions, j.PersistentField = changed(sent.GetExtensions(), anyJSON),
			changed(sent.GetPersistentField(), anyJSON)
	} else {
		j.Extensions, j.PersistentField = changed(m.GetExtensions(), asJSON), changed(m.GetPersistentField(), asJSON)
	}
	return j
}

func asBytes(text json.RawMessage) []byte { return text }

func asJSON(text []byte) json.RawMessage { return text }

func anyJSON(a *anypb.Any) json.RawMessage {
	if text, err := toJSON(a); err == nil {
		return text
	}
	return opaqueJSON(a)
}

// changed returns a map of the same names with changed values.
func changed[V, W any](values map[string]V, change func(V) W) map[string]W {
	if len(values) == 0 {
		return nil
	}
	all := make(map[string]W, len(values))
	for name, value := range values {
		all[name] = change(value)
	}
	return all
}
