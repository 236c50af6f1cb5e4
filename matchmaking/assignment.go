package matchmaking

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
)

// Assignment tells a player where to play, and with whom. As JSON it is the content of the message on the ticket's channel.
type Assignment struct {
	TicketID   string                     `json:"ticketId"`
	MatchID    string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Connection string                     `json:"connection"`
	Team       int                        `json:"team"` // counted from 0
	Teammates  []string                   `json:"teammates,omitempty"`
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// Assignments returns the match that the store is to assign: for each ticket of a proposal its Assignment as JSON, and an
// AssignedMatch as its record. An extension of the assigner replaces one of the match function with the same name.
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
	match := AssignMatch{ID: p.ID, Assignments: make([]AssignTicket, 0, tickets), Record: shared.record(p.Teams, tickets)}
	for number, team := range p.Teams {
		for _, ticket := range team {
			var others []*Ticket
			if d.Teammates {
				others = team
			}
			match.Assignments = append(match.Assignments, AssignTicket{
				ID: ticket.ID, Created: ticket.CreateTime, Epoch: ticket.Epoch, Content: shared.write(ticket.ID, number, others),
			})
		}
	}
	return match, nil
}

// merge returns the extensions of both, and those of place where both have the same name.
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

// sharedJSON is what the assignments of a match have in common, as JSON: the members before the team, and those after the
// teammates.
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

// write returns the JSON of a ticket's Assignment, with the IDs of its team's other tickets. IDs need no escapes.
func (s *sharedJSON) write(ticketID string, number int, team []*Ticket) []byte {
	const frame, perMate = 32, 40
	content := make([]byte, 0, frame+len(ticketID)+len(s.before)+len(s.after)+perMate*len(team))
	content = append(content, `{"ticketId":"`...)
	content = append(content, ticketID...)
	content = append(content, `",`...)
	content = append(content, s.before...)
	content = append(content, `,"team":`...)
	content = strconv.AppendInt(content, int64(number), 10)
	separator := `,"teammates":["`
	for _, other := range team {
		if other.ID != ticketID {
			content = append(content, separator...)
			content = append(content, other.ID...)
			separator = `","`
		}
	}
	if separator == `","` {
		content = append(content, `"]`...)
	}
	return append(content, s.after...)
}
