package callout

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// found is a match in a function's response.
type found struct {
	ID         string                     `json:"id"`
	Teams      [][]string                 `json:"teams"` // ticket IDs
	Score      float64                    `json:"score"`
	Extensions map[string]json.RawMessage `json:"extensions"`
}

// proposals converts the matches of one response into proposals.
type proposals struct {
	tickets map[string]*matchmaking.Ticket // of all pools, by ID
	ids     map[string]bool                // of the matches
	valid   []matchmaking.Proposal
}

// newProposals returns proposals without any match.
func newProposals(pools map[string][]*matchmaking.Ticket) *proposals {
	maxTickets := 0
	for _, pool := range pools {
		maxTickets = max(maxTickets, len(pool))
	}
	p := &proposals{tickets: make(map[string]*matchmaking.Ticket, maxTickets), ids: map[string]bool{}}
	for _, pool := range pools {
		for _, t := range pool {
			p.tickets[t.ID] = t
		}
	}
	return p
}

// unknownTicketError is the error of a match with a ticket that is in no pool.
type unknownTicketError struct{ match, ticket string }

// Error returns a text with the match and the ticket.
func (e *unknownTicketError) Error() string {
	return fmt.Sprintf("match %q has the ticket %q, which is in no pool", e.match, e.ticket)
}

// add validates a match and adds it. Errors: *unknownTicketError, or another error that describes the match.
func (p *proposals) add(a found) error {
	proposal := matchmaking.Proposal{ID: a.ID, Score: a.Score, Extensions: a.Extensions}
	if a.ID != "" {
		if err := matchmaking.CheckMatchID(a.ID); err != nil {
			return err
		}
	}
	switch {
	case a.ID != "" && p.ids[a.ID]:
		return fmt.Errorf("two matches have the ID %q", a.ID)
	case len(a.Teams) == 0:
		return fmt.Errorf("match %q has no teams", a.ID)
	case math.IsNaN(a.Score):
		return fmt.Errorf("match %q has the score NaN", a.ID)
	}
	seen := map[string]bool{}
	for i, team := range a.Teams {
		if len(team) == 0 {
			return fmt.Errorf("match %q has no tickets in team %d", a.ID, i)
		}
		tickets, err := p.team(a.ID, team, seen)
		if err != nil {
			return err
		}
		proposal.Teams = append(proposal.Teams, tickets)
	}
	p.ids[a.ID] = true
	p.valid = append(p.valid, proposal)
	return nil
}

// team looks up the tickets of a team. seen contains the tickets of the match so far.
func (p *proposals) team(match string, ids []string, seen map[string]bool) ([]*matchmaking.Ticket, error) {
	tickets := make([]*matchmaking.Ticket, len(ids))
	for i, id := range ids {
		t, ok := p.tickets[id]
		switch {
		case !ok:
			return nil, &unknownTicketError{match: match, ticket: id}
		case seen[id]:
			return nil, fmt.Errorf("match %q has a duplicate ticket %q", match, id)
		}
		tickets[i], seen[id] = t, true
	}
	return tickets, nil
}
