package convert

import (
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/stored"
)

// Encode returns a spec as it is stored: its Message, or its fields if it has none, and its Owner. It fails for text
// that isn't UTF-8.
func Encode(s matchmaking.Spec) (message []byte, err error) {
	if message = s.Message; len(message) == 0 {
		message, err = marshal(storedOf(s))
	}
	if err != nil || s.Owner == "" {
		return message, err
	}
	owner, err := marshal(&stored.Ticket{Owner: s.Owner})
	return slices.Concat(message, owner), err // a message is the parts of it, one after the other
}

// Decode returns the spec that is stored as message, which becomes its Message, and must not change. It also reads the
// JSON that earlier versions stored.
func Decode(message []byte) (matchmaking.Spec, error) {
	if len(message) > 0 && message[0] == '{' {
		var fields JSON
		if err := json.Unmarshal(message, &fields); err != nil {
			return matchmaking.Spec{}, err
		}
		return FromJSON(fields)
	}
	m, sent := new(stored.Ticket), new(stored.Sent)
	if err := proto.Unmarshal(message, m); err != nil {
		return matchmaking.Spec{}, err
	}
	search := m.GetSearchFields()
	if m.Sent != nil {
		if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(m.GetSent(), sent); err != nil {
			return matchmaking.Spec{}, fmt.Errorf("what the client sent: %w", err)
		}
		search = sent.GetSearchFields()
	}
	spec := matchmaking.Spec{
		SearchFields: toSearchFields(search),
		NumTeams:     int(m.GetMatching().GetNumTeams()), TeamSize: int(m.GetMatching().GetTeamSize()),
		Players: int(m.GetMatching().GetPlayers()),
		Message: message, Owner: m.GetOwner(),
	}
	for _, c := range m.GetMatching().GetCriteria() {
		spec.Criteria = append(spec.Criteria, matchmaking.Criterion{Name: c.GetName(), MinValue: c.GetMinValue(),
			MaxValue: c.GetMaxValue()})
	}
	for _, s := range m.GetMatching().GetStatistics() {
		spec.Statistics = append(spec.Statistics, matchmaking.Statistic{Name: s.GetName(), Value: s.GetValue()})
	}
	if m.Sent != nil && m.GetMatching() == nil {
		spec.Statistics = statisticsOf(spec.SearchFields.DoubleArgs)
	}
	return spec, nil
}

// storedOf returns the fields of a spec without its Message.
func storedOf(s matchmaking.Spec) *stored.Ticket {
	m := &stored.Ticket{Matching: matchingOf(s)}
	if f := s.SearchFields; len(f.Tags)+len(f.DoubleArgs)+len(f.StringArgs) > 0 {
		m.SearchFields = fromSearchFields(f)
	}
	return m
}

// matchingOf returns nil if there is nothing.
func matchingOf(s matchmaking.Spec) *stored.Matching {
	m := &stored.Matching{NumTeams: int64(s.NumTeams), TeamSize: int64(s.TeamSize), Players: int64(s.Players)}
	for _, c := range s.Criteria {
		m.Criteria = append(m.Criteria, &stored.Criterion{Name: c.Name, MinValue: c.MinValue, MaxValue: c.MaxValue})
	}
	for _, v := range s.Statistics {
		m.Statistics = append(m.Statistics, &stored.Statistic{Name: v.Name, Value: v.Value})
	}
	if proto.Size(m) == 0 {
		return nil
	}
	return m
}

func marshal(m proto.Message) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// messageOf returns what the creator of a ticket sent: a client's ticket, or nil and the fields. Decode has read the
// message before, so that it can be read.
func messageOf(s matchmaking.Spec) (sent *openmatch.Ticket, m *stored.Ticket) {
	m = new(stored.Ticket)
	if proto.Unmarshal(s.Message, m) != nil || m.Sent == nil {
		return nil, m
	}
	sent = new(openmatch.Ticket)
	if proto.Unmarshal(m.GetSent(), sent) != nil {
		return nil, m
	}
	return sent, m
}
