package matchmaking

import (
	"encoding/json"
	"fmt"
	"maps"
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

// Assignments returns the match that the store is to assign: for each ticket of a proposal its Assignment as JSON. An
// extension of the assigner replaces one of the match function with the same name.
func (d *Definition) Assignments(p *Proposal, place Allocation) (AssignMatch, error) {
	extensions := p.Extensions
	if len(place.Extensions) > 0 {
		extensions = maps.Clone(p.Extensions)
		if extensions == nil {
			extensions = place.Extensions
		} else {
			maps.Copy(extensions, place.Extensions)
		}
	}
	match := AssignMatch{ID: p.ID}
	for number, team := range p.Teams {
		for _, ticket := range team {
			a := Assignment{
				TicketID: ticket.ID, MatchID: p.ID, Queue: d.Name, Connection: place.Connection, Team: number, Extensions: extensions,
			}
			if d.Teammates {
				a.Teammates = teammates(team, ticket)
			}
			content, err := json.Marshal(a)
			if err != nil {
				return AssignMatch{}, fmt.Errorf("write the assignments of match %s: %w", p.ID, err)
			}
			match.Assignments = append(match.Assignments, AssignTicket{
				ID: ticket.ID, Created: ticket.CreateTime, Epoch: ticket.Epoch, Content: content,
			})
		}
	}
	return match, nil
}

// teammates returns the IDs of a ticket's team without its own.
func teammates(team []*Ticket, of *Ticket) []string {
	var others []string
	for _, t := range team {
		if t.ID != of.ID {
			others = append(others, t.ID)
		}
	}
	return others
}
