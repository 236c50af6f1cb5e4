package convert

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// ToSpec returns the spec of a ticket.
//
// Open Match's tickets have no criteria, statistics or sizes. The statistics are the finite double_args, ordered by
// name. Three extensions, which may be Values, Structs or ListValues, contain the rest:
//
//	tidemark.criteria    [{"name": "ping", "minValue": 0, "maxValue": 50}, …]
//	tidemark.statistics  [{"name": "ping", "value": 20}, …], in place of the double_args
//	tidemark.match       {"numTeams": 2, "teamSize": 3, "players": 2}, or some of them
//
// The message is stored unchanged in Spec.Sent, with all of its extensions and unknown fields. ToSpec fails if one of
// these three extensions is malformed.
func ToSpec(t *openmatch.Ticket) (matchmaking.Spec, error) {
	spec := matchmaking.Spec{SearchFields: toSearchFields(t.GetSearchFields())}
	if err := readExtensions(&spec, t.GetExtensions()); err != nil {
		return matchmaking.Spec{}, within("extensions", err)
	}
	var err error
	if spec.Sent, err = (proto.MarshalOptions{Deterministic: true}).Marshal(t); err != nil {
		return matchmaking.Spec{}, invalid("ticket", "%v", err)
	}
	return spec, nil
}

// FromTicket returns a ticket as a message: its creator's message, if it was created by one, with the ID, the create
// time and the assignment. Otherwise, data without a field in Open Match's tickets is in extensions, as in [ToSpec],
// unless the ticket has extensions with these names.
func FromTicket(t *matchmaking.Ticket) *openmatch.Ticket {
	m := sentBy(&t.Spec)
	if m == nil {
		m = &openmatch.Ticket{
			SearchFields: fromSearchFields(t.SearchFields),
			Extensions:   FromExtensions(t.Extensions), PersistentField: FromExtensions(t.PersistentField),
		}
		writeExtensions(m, t.Spec)
	}
	m.Id, m.CreateTime = t.ID, fromTime(t.CreateTime)
	if t.Assignment != nil {
		m.Assignment = FromAssignment(t.Assignment)
	}
	return m
}

// WithExtensions returns a spec with the extensions and the persistent_field of its source message, for a body of JSON.
// An Any that JSON can't represent, such as a NaN in a google.protobuf.Value, is written like one of an unknown type.
func WithExtensions(s matchmaking.Spec) matchmaking.Spec {
	if m := sentBy(&s); m != nil {
		s.Extensions, s.PersistentField = changed(m.GetExtensions(), anyJSON), changed(m.GetPersistentField(), anyJSON)
	}
	return s
}

// sentBy returns the source message of a spec, or nil if it has another source.
func sentBy(s *matchmaking.Spec) *openmatch.Ticket {
	if s.Sent == nil {
		return nil
	}
	m := new(openmatch.Ticket)
	if proto.Unmarshal(s.Sent, m) != nil { // impossible: ToSpec encoded it
		return nil
	}
	return m
}

// FromAssignment returns an assignment as a message: its connection and extensions.
func FromAssignment(a *matchmaking.Assignment) *openmatch.Assignment {
	return &openmatch.Assignment{Connection: a.Connection, Extensions: FromExtensions(a.Extensions)}
}

// WithMatch returns an assignment as a message with the data that has no field in Open Match's assignments. It is in
// the extension tidemark.match, unless the assignment has an extension with this name: a google.protobuf.Struct such as
//
//	{"matchId": "01K….duel", "queue": "duel", "team": 0, "teammates": ["ann"], "opponents": ["ben"]}
func WithMatch(a *matchmaking.Assignment) *openmatch.Assignment {
	m := FromAssignment(a)
	if m.Extensions[matchExtension] == nil {
		if m.Extensions == nil {
			m.Extensions = make(map[string]*anypb.Any, 1)
		}
		m.Extensions[matchExtension] = matchOf(a)
	}
	return m
}

// toSearchFields shares the message's referenced values.
func toSearchFields(f *openmatch.SearchFields) matchmaking.SearchFields {
	return matchmaking.SearchFields{Tags: f.GetTags(), DoubleArgs: f.GetDoubleArgs(), StringArgs: f.GetStringArgs()}
}

// fromSearchFields returns a message even without fields, because match functions don't check for nil. It shares the
// referenced values.
func fromSearchFields(f matchmaking.SearchFields) *openmatch.SearchFields {
	return &openmatch.SearchFields{Tags: f.Tags, DoubleArgs: f.DoubleArgs, StringArgs: f.StringArgs}
}

// toTime returns the time of a timestamp, or the zero time if there is none.
func toTime(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, invalid(field, "%v", err)
	}
	return t.AsTime(), nil
}

func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
