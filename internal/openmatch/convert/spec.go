package convert

import (
	"bytes"
	"encoding/json"
	"slices"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// The extensions for data without a field in Open Match's tickets.
const (
	criteriaExtension   = "tidemark.criteria"
	statisticsExtension = "tidemark.statistics"
	matchExtension      = "tidemark.match"
)

type criterion struct {
	Name     *string  `json:"name"`
	MinValue *float64 `json:"minValue"`
	MaxValue *float64 `json:"maxValue"`
}

type statistic struct {
	Name  *string  `json:"name"`
	Value *float64 `json:"value"`
}

type sizes struct {
	NumTeams int `json:"numTeams,omitempty"`
	TeamSize int `json:"teamSize,omitempty"`
	Players  int `json:"players,omitempty"`
}

// readExtensions sets the criteria, statistics and sizes of a spec from a ticket's extensions and numbers. Errors name
// the extension.
func readExtensions(spec *matchmaking.Spec, extensions map[string]*anypb.Any) error {
	var criteria []criterion
	if _, err := read(extensions, criteriaExtension, &criteria); err != nil {
		return err
	}
	for i, c := range criteria {
		if c.Name == nil || c.MinValue == nil || c.MaxValue == nil {
			return invalid(criteriaExtension, "criterion %d must have a name, a minValue and a maxValue", i)
		}
		spec.Criteria = append(spec.Criteria, matchmaking.Criterion{Name: *c.Name, MinValue: *c.MinValue,
			MaxValue: *c.MaxValue})
	}
	var statistics []statistic
	measured, err := read(extensions, statisticsExtension, &statistics)
	if err != nil {
		return err
	}
	for i, s := range statistics {
		if s.Name == nil || s.Value == nil {
			return invalid(statisticsExtension, "statistic %d must have a name and a value", i)
		}
		spec.Statistics = append(spec.Statistics, matchmaking.Statistic{Name: *s.Name, Value: *s.Value})
	}
	if !measured {
		spec.Statistics = spec.SearchFields.Statistics()
	}
	var m sizes
	_, err = read(extensions, matchExtension, &m)
	spec.NumTeams, spec.TeamSize, spec.Players = m.NumTeams, m.TeamSize, m.Players
	return err
}

// read decodes an extension, if present: a Value, Struct or ListValue.
func read(extensions map[string]*anypb.Any, name string, into any) (given bool, err error) {
	a, given := extensions[name]
	if !given {
		return false, nil
	}
	switch a.MessageName() {
	case "google.protobuf.Value", "google.protobuf.Struct", "google.protobuf.ListValue":
	default:
		return true, invalid(name, "it is a %q, and not a google.protobuf.Value, Struct or ListValue", a.GetTypeUrl())
	}
	text, err := toJSON(a)
	if err != nil {
		return true, invalid(name, "%v", err)
	}
	var packed struct {
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(text, &packed); err != nil {
		return true, invalid(name, "%v", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(packed.Value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return true, invalid(name, "%v", err)
	}
	return true, nil
}

// writeExtensions adds the extensions that readExtensions reads.
func writeExtensions(m *openmatch.Ticket, spec matchmaking.Spec) {
	if len(spec.Criteria) > 0 {
		extend(m, criteriaExtension, spec.Criteria)
	}
	if !slices.Equal(spec.Statistics, spec.SearchFields.Statistics()) {
		extend(m, statisticsExtension, append([]matchmaking.Statistic{}, spec.Statistics...)) // never null
	}
	if s := (sizes{NumTeams: spec.NumTeams, TeamSize: spec.TeamSize, Players: spec.Players}); s != (sizes{}) {
		extend(m, matchExtension, s)
	}
}

// extend adds an extension to m, unless m has one with that name.
func extend(m *openmatch.Ticket, name string, v any) {
	if _, there := m.Extensions[name]; there {
		return
	}
	text, err := json.Marshal(v)
	if err != nil {
		return // impossible: all numbers of a ticket are finite
	}
	if m.Extensions == nil {
		m.Extensions = make(map[string]*anypb.Any)
	}
	m.Extensions[name] = fromJSON(text)
}
