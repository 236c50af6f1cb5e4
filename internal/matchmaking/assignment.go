package matchmaking

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Assignment is the connection and the match of a player. As JSON it is the content of the message on the ticket's
// channel.
type Assignment struct {
	TicketID   string                     `json:"ticketId"`
	MatchID    string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Connection string                     `json:"connection"`
	Team       int                        `json:"team"`                // counted from 0
	Teammates  []string                   `json:"teammates,omitempty"` // other tickets of the team, if revealed
	Opponents  []string                   `json:"opponents,omitempty"` // tickets of the other teams, if revealed
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// MaxUserMatchTickets is the number of tickets of a match of a user's director, and of those that one call assigns.
const MaxUserMatchTickets = 10_000

// MaxAssignmentBytes limits the assignments of a match together, and those of one call of AssignTickets: the connection
// and the extensions are in the assignment of each ticket.
const MaxAssignmentBytes = 16 << 20

// Assignments returns the match for the store to assign: the Assignment of each ticket of a proposal, as JSON, and the
// record for ParseMatch. An extension of the assigner replaces an extension of the match function with the same
// name. Errors: fault.SlugInvalidTicket beyond MaxAssignmentBytes.
func (d *Definition) Assignments(p *Proposal, place Allocation) (AssignMatch, error) {
	shared, err := writeShared(Assignment{
		MatchID: p.ID, Queue: d.Name, Connection: place.Connection, Extensions: merge(p.Extensions, place.Extensions),
	})
	if err != nil {
		return AssignMatch{}, fmt.Errorf("write the assignments of match %s: %w", p.ID, err)
	}
	tickets := 0
	for _, team := range p.Teams {
		tickets += len(team)
	}
	if bytes := shared.size(p.Teams, d.Reveal); bytes > MaxAssignmentBytes {
		return AssignMatch{}, TooLargeAssignments(tickets, bytes)
	}
	match := AssignMatch{ID: p.ID, Assignments: make([]AssignTicket, 0, tickets),
		Record: shared.record(p.Teams, tickets)}
	for number, team := range p.Teams {
		for _, ticket := range team {
			match.Assignments = append(match.Assignments, AssignTicket{
				ID: ticket.ID, Created: ticket.CreateTime, Epoch: ticket.Epoch, Content: shared.write(ticket.ID, number,
					p.Teams, d.Reveal),
			})
		}
	}
	return match, nil
}

// AppendOutgoing appends the entries of the outbox for a match that was assigned just now: those of the tickets that
// have one, by AssignOutcome.Entries. trace is that of the entries.
func (m *AssignMatch) AppendOutgoing(to []OutboxEntry, entries []string, trace string) []OutboxEntry {
	for i, entry := range entries {
		if entry != "" {
			t := &m.Assignments[i]
			to = append(to, OutboxEntry{Entry: entry, TicketID: t.ID, MatchID: m.ID, Epoch: t.Epoch, Content: t.Content,
				Trace: trace})
		}
	}
	return to
}

// TooLargeAssignments returns the error of assignments that have more than MaxAssignmentBytes together.
func TooLargeAssignments(tickets, bytes int) error {
	return InvalidTicket("assignments", "the assignments of %d tickets have %d bytes together, of at most %d: each has "+
		"the connection and the extensions", tickets, bytes, MaxAssignmentBytes)
}

// merge returns the extensions of both. If both have a name, it uses the extension of place.
func merge(match, place map[string]json.RawMessage) map[string]json.RawMessage {
	switch {
	case len(place) == 0:
		return match
	case len(match) == 0:
		return place
	}
	all := maps.Clone(match)
	maps.Copy(all, place)
	return all
}

// sharedJSON is the part that all assignments of a match share, as JSON: the members before the team, and those after
// the lists of tickets.
type sharedJSON struct{ before, after []byte }

func writeShared(a Assignment) (sharedJSON, error) {
	before, err := json.Marshal(struct {
		MatchID    string `json:"matchId"`
		Queue      string `json:"queue"`
		Connection string `json:"connection"`
	}{a.MatchID, a.Queue, a.Connection})
	if err != nil {
		return sharedJSON{}, err
	}
	after := []byte("}")
	if len(a.Extensions) > 0 {
		after, err = json.Marshal(map[string]any{"extensions": a.Extensions})
		if err != nil {
			return sharedJSON{}, err
		}
		after[0] = ','
	}
	return sharedJSON{before: before[1 : len(before)-1], after: after}, nil
}

// size returns the approximate bytes of the Assignments of all tickets.
func (s *sharedJSON) size(teams [][]*Ticket, reveal Reveal) (bytes int) {
	all := idBytes(slices.Concat(teams...))
	for _, team := range teams {
		each := len(s.before) + len(s.after)
		switch reveal {
		case RevealNone:
		case RevealTeammates:
			each += idBytes(team)
		case RevealOpponents:
			each += all
		}
		bytes += each * len(team)
	}
	return bytes
}

// idBytes returns the bytes of the IDs of tickets in a list.
func idBytes(tickets []*Ticket) (bytes int) {
	for _, t := range tickets {
		bytes += len(t.ID) + len(`"",`)
	}
	return bytes
}

// write returns the JSON of the Assignment of a ticket in one of the teams. IDs need no escapes.
func (s *sharedJSON) write(ticketID string, number int, teams [][]*Ticket, reveal Reveal) []byte {
	const frame = 32
	content := make([]byte, 0, frame+len(ticketID)+len(s.before)+len(s.after))
	content = append(content, `{"ticketId":"`...)
	content = append(content, ticketID...)
	content = append(content, `",`...)
	content = append(content, s.before...)
	content = append(content, `,"team":`...)
	content = strconv.AppendInt(content, int64(number), 10)
	if reveal == RevealTeammates || reveal == RevealOpponents {
		content = appendIDs(content, `,"teammates":["`, teams[number:number+1], ticketID)
	}
	if reveal == RevealOpponents {
		content = appendIDs(content, `,"opponents":["`, slices.Concat(teams[:number], teams[number+1:]), ticketID)
	}
	return append(content, s.after...)
}

// appendIDs appends a member with the IDs of all tickets except one. It appends nothing if no ticket remains.
func appendIDs(content []byte, member string, teams [][]*Ticket, except string) []byte {
	separator := member
	for _, team := range teams {
		for _, ticket := range team {
			if ticket.ID != except {
				content = append(append(content, separator...), ticket.ID...)
				separator = `","`
			}
		}
	}
	if separator == member {
		return content
	}
	return append(content, `"]`...)
}

// AssignedMatch is an assigned match.
type AssignedMatch struct {
	ID         string                     `json:"id"`
	Queue      string                     `json:"queue"`
	AssignTime time.Time                  `json:"assignTime"` // of the storage's clock, in microseconds, UTC
	Connection string                     `json:"connection"`
	Teams      [][]MatchedTicket          `json:"teams"`                // in order, which assignments count from 0
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"` // as in its assignments
}

// MatchedTicket is a ticket of a match.
type MatchedTicket struct {
	ID      string `json:"id"`
	Players int    `json:"players"` // number of players
}

// maxRecordBytes is the largest record of a match that includes the match's extensions.
const maxRecordBytes = 64 << 10

// ParseMatch parses the record of a match from a store.
func ParseMatch(record []byte, at time.Time) (AssignedMatch, error) {
	var m struct {
		ID string `json:"matchId"`
		AssignedMatch
	}
	if err := json.Unmarshal(record, &m); err != nil {
		return AssignedMatch{}, fmt.Errorf("malformed record of a match: %w", err)
	}
	m.AssignedMatch.ID, m.AssignTime = m.ID, at.UTC()
	for _, team := range m.Teams {
		for i := range team {
			team[i].Players = max(team[i].Players, 1)
		}
	}
	return m.AssignedMatch, nil
}

// record returns the record of a match, for ParseMatch: an AssignedMatch as JSON whose ID is named as in an Assignment,
// without AssignTime, and with Players if these are several. IDs need no escapes. Extensions are omitted if it would be
// too large.
func (s *sharedJSON) record(teams [][]*Ticket, tickets int) []byte {
	const frame, perTicket = 32, 48
	record := make([]byte, 0, frame+len(s.before)+len(s.after)+perTicket*tickets)
	record = append(append(append(record, '{'), s.before...), `,"teams":[`...)
	for i, team := range teams {
		if i > 0 {
			record = append(record, ',')
		}
		record = append(record, '[')
		for j, ticket := range team {
			if j > 0 {
				record = append(record, ',')
			}
			record = append(append(append(record, `{"id":"`...), ticket.ID...), '"')
			if ticket.Party() > 1 {
				record = strconv.AppendInt(append(record, `,"players":`...), int64(ticket.Party()), 10)
			}
			record = append(record, '}')
		}
		record = append(record, ']')
	}
	record = append(record, ']')
	if len(record)+len(s.after) > maxRecordBytes {
		return append(record, '}')
	}
	return append(record, s.after...)
}
