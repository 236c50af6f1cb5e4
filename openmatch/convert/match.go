package convert

import (
	"fmt"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// EvaluationInput is the name of the extension with a match's score, a DefaultEvaluationCriteria.
const EvaluationInput = "evaluation_input"

// ToProposal returns a match as a proposal. Its tickets are those of the map with the IDs in the message, all in one team,
// because Open Match has no teams. Its score is that of the extension EvaluationInput. ToProposal fails if there are no
// tickets, for an unknown or repeated ticket, an invalid match ID, a backfill, and a malformed extension.
func ToProposal(m *openmatch.Match, tickets map[string]*matchmaking.Ticket) (matchmaking.Proposal, error) {
	p := matchmaking.Proposal{ID: m.GetMatchId()}
	if p.ID != "" {
		if err := matchmaking.CheckMatchID(p.ID); err != nil {
			return matchmaking.Proposal{}, invalid("match_id", "%v", err)
		}
	}
	if m.GetBackfill() != nil {
		return matchmaking.Proposal{}, invalid("backfill", "backfills aren't supported")
	}
	team, err := teamOf(m.GetTickets(), tickets)
	if err != nil {
		return matchmaking.Proposal{}, err
	}
	p.Teams = [][]*matchmaking.Ticket{team}
	if p.Score, err = ScoreOf(m); err != nil {
		return matchmaking.Proposal{}, err
	}
	if p.Extensions, err = ToExtensions(m.GetExtensions()); err != nil {
		return matchmaking.Proposal{}, within("extensions", err)
	}
	return p, nil
}

func teamOf(messages []*openmatch.Ticket, tickets map[string]*matchmaking.Ticket) ([]*matchmaking.Ticket, error) {
	if len(messages) == 0 {
		return nil, invalid("tickets", "a match must have tickets")
	}
	team := make([]*matchmaking.Ticket, len(messages))
	seen := make(map[string]bool, len(messages))
	for i, m := range messages {
		id := m.GetId()
		t := tickets[id]
		switch {
		case t == nil:
			return nil, invalid(fmt.Sprintf("tickets[%d].id", i), "the ticket %q doesn't exist", id)
		case seen[id]:
			return nil, invalid(fmt.Sprintf("tickets[%d].id", i), "duplicate ticket %q", id)
		}
		team[i], seen[id] = t, true
	}
	return team, nil
}

// ScoreOf returns the score of a match, or 0 if it has none. It fails if EvaluationInput isn't a
// DefaultEvaluationCriteria.
func ScoreOf(m *openmatch.Match) (float64, error) {
	input := m.GetExtensions()[EvaluationInput]
	if input == nil {
		return 0, nil
	}
	criteria := new(openmatch.DefaultEvaluationCriteria)
	if err := input.UnmarshalTo(criteria); err != nil {
		return 0, invalid("extensions."+EvaluationInput, "%v", err)
	}
	return criteria.GetScore(), nil
}

// FromProposal returns a proposal as a match of a profile. Its score is in the extension EvaluationInput, unless the
// proposal has an extension with this name.
func FromProposal(p matchmaking.Proposal, profile string) *openmatch.Match {
	m := &openmatch.Match{MatchId: p.ID, MatchProfile: profile, Extensions: FromExtensions(p.Extensions)}
	for _, t := range p.Tickets() {
		m.Tickets = append(m.Tickets, FromTicket(t))
	}
	if _, there := m.GetExtensions()[EvaluationInput]; !there && p.Score != 0 {
		if m.Extensions == nil {
			m.Extensions = make(map[string]*anypb.Any)
		}
		m.Extensions[EvaluationInput] = pack(&openmatch.DefaultEvaluationCriteria{Score: p.Score})
	}
	return m
}
