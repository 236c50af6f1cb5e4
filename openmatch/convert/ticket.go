package convert

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// ToSpec gives what a ticket asks for.
//
// Open Match's tickets have neither criteria, statistics nor sizes. The statistics are the double_args, those that
// are finite, by name; and three extensions, which may be Values, Structs or ListValues, say the rest:
//
//	tidemark.criteria    [{"name": "ping", "minValue": 0, "maxValue": 50}, …]
//	tidemark.statistics  [{"name": "ping", "value": 20}, …], in place of the double_args
//	tidemark.match       {"numTeams": 2, "teamSize": 3}, either of them
//
// All extensions are kept, these too. Errors: *fault.Error of the kind Invalid, with the field.
func ToSpec(t *openmatch.Ticket) (matchmaking.Spec, error) {
	spec := matchmaking.Spec{SearchFields: toSearchFields(t.GetSearchFields())}
	var err error
	if spec.Extensions, err = ToExtensions(t.GetExtensions()); err != nil {
		return matchmaking.Spec{}, within("extensions", err)
	}
	if spec.PersistentField, err = ToExtensions(t.GetPersistentField()); err != nil {
		return matchmaking.Spec{}, within("persistent_field", err)
	}
	if err := readWishes(&spec); err != nil {
		return matchmaking.Spec{}, within("extensions", err)
	}
	return spec, nil
}

// ToTicket gives a ticket, as far as the message tells of it: [ToSpec], and ID, create time and assignment. Errors:
// those of ToSpec.
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

// FromTicket gives a ticket as a message. What Open Match's tickets don't have is in extensions, see [ToSpec], unless
// the ticket has extensions with their names.
func FromTicket(t *matchmaking.Ticket) *openmatch.Ticket {
	m := &openmatch.Ticket{
		Id: t.ID, SearchFields: fromSearchFields(t.SearchFields), Extensions: FromExtensions(t.Extensions),
		PersistentField: FromExtensions(t.PersistentField), CreateTime: fromTime(t.CreateTime),
	}
	writeWishes(m, t.Spec)
	if t.Assignment != nil {
		m.Assignment = FromAssignment(t.Assignment)
	}
	return m
}

// ToAssignment gives an assignment's connection and extensions. Errors: those of ToExtensions.
func ToAssignment(a *openmatch.Assignment) (*matchmaking.Assignment, error) {
	extensions, err := ToExtensions(a.GetExtensions())
	if err != nil {
		return nil, within("extensions", err)
	}
	return &matchmaking.Assignment{Connection: a.GetConnection(), Extensions: extensions}, nil
}

// FromAssignment gives an assignment as a message, which has its connection and extensions.
func FromAssignment(a *matchmaking.Assignment) *openmatch.Assignment {
	return &openmatch.Assignment{Connection: a.Connection, Extensions: FromExtensions(a.Extensions)}
}

func toSearchFields(f *openmatch.SearchFields) matchmaking.SearchFields {
	return matchmaking.SearchFields{
		Tags: slices.Clone(f.GetTags()), DoubleArgs: maps.Clone(f.GetDoubleArgs()), StringArgs: maps.Clone(f.GetStringArgs()),
	}
}

// fromSearchFields gives a message even where there are no fields: match functions use it unasked.
func fromSearchFields(f matchmaking.SearchFields) *openmatch.SearchFields {
	return &openmatch.SearchFields{Tags: slices.Clone(f.Tags), DoubleArgs: maps.Clone(f.DoubleArgs), StringArgs: maps.Clone(f.StringArgs)}
}

// toTime gives the time of a timestamp, zero where there is none.
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
