package convert

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// ToSpec returns what a ticket asks for.
//
// Open Match's tickets have no criteria, statistics or sizes. The statistics are the finite double_args, ordered by name.
// Three extensions, which may be Values, Structs or ListValues, have the rest:
//
//	tidemark.criteria    [{"name": "ping", "minValue": 0, "maxValue": 50}, …]
//	tidemark.statistics  [{"name": "ping", "value": 20}, …], in place of the double_args
//	tidemark.match       {"numTeams": 2, "teamSize": 3, "players": 2}, or some of them
//
// All extensions are kept, including these. ToSpec fails for malformed extensions.
func ToSpec(t *openmatch.Ticket) (matchmaking.Spec, error) {
	spec := matchmaking.Spec{SearchFields: toSearchFields(t.GetSearchFields())}
	var err error
	if spec.Extensions, err = ToExtensions(t.GetExtensions()); err != nil {
		return matchmaking.Spec{}, within("extensions", err)
	}
	if spec.PersistentField, err = ToExtensions(t.GetPersistentField()); err != nil {
		return matchmaking.Spec{}, within("persistent_field", err)
	}
	if err := readExtensions(&spec); err != nil {
		return matchmaking.Spec{}, within("extensions", err)
	}
	return spec, nil
}

// ToTicket returns what a message has of a ticket: that of [ToSpec], the ID, the create time and the assignment. It fails
// if ToSpec does, and for an invalid time or assignment.
func ToTicket(t *openmatch.Ticket) (*matchmaking.Ticket, error) {
	spec, err := ToSpec(t)
	if err != nil {
		return nil, err
	}
	ticket := &matchmaking.Ticket{ID: t.GetId(), Spec: spec}
	if ticket.CreateTime, err = toTime("create_time", t.GetCreateTime()); err != nil {
		return nil, err
	}
	if t.GetAssignment() != nil {
		if ticket.Assignment, err = ToAssignment(t.GetAssignment()); err != nil {
			return nil, within("assignment", err)
		}
	}
	return ticket, nil
}

// FromTicket returns a ticket as a message. What Open Match's tickets don't have is in extensions, as in [ToSpec], unless
// the ticket has extensions with their names.
func FromTicket(t *matchmaking.Ticket) *openmatch.Ticket {
	m := &openmatch.Ticket{
		Id: t.ID, SearchFields: fromSearchFields(t.SearchFields), Extensions: FromExtensions(t.Extensions),
		PersistentField: FromExtensions(t.PersistentField), CreateTime: fromTime(t.CreateTime),
	}
	writeExtensions(m, t.Spec)
	if t.Assignment != nil {
		m.Assignment = FromAssignment(t.Assignment)
	}
	return m
}

// ToAssignment returns an assignment's connection and extensions. It fails if ToExtensions does.
func ToAssignment(a *openmatch.Assignment) (*matchmaking.Assignment, error) {
	extensions, err := ToExtensions(a.GetExtensions())
	if err != nil {
		return nil, within("extensions", err)
	}
	return &matchmaking.Assignment{Connection: a.GetConnection(), Extensions: extensions}, nil
}

// FromAssignment returns an assignment's connection and extensions as a message.
func FromAssignment(a *matchmaking.Assignment) *openmatch.Assignment {
	return &openmatch.Assignment{Connection: a.Connection, Extensions: FromExtensions(a.Extensions)}
}

func toSearchFields(f *openmatch.SearchFields) matchmaking.SearchFields {
	return matchmaking.SearchFields{
		Tags: slices.Clone(f.GetTags()), DoubleArgs: maps.Clone(f.GetDoubleArgs()), StringArgs: maps.Clone(f.GetStringArgs()),
	}
}

// fromSearchFields returns a message even if there are no fields, because match functions don't check for nil.
func fromSearchFields(f matchmaking.SearchFields) *openmatch.SearchFields {
	return &openmatch.SearchFields{Tags: slices.Clone(f.Tags), DoubleArgs: maps.Clone(f.DoubleArgs), StringArgs: maps.Clone(f.StringArgs)}
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
