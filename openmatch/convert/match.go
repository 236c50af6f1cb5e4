package convert

import (
	"fmt"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// EvaluationInput is the extension of a match that has its score, a DefaultEvaluationCriteria.
const EvaluationInput = "evaluation_input"

// ToProposal gives a match as a proposal. Its tickets are those of the map that have the IDs of the message's, all in
// one team, since Open Match has no teams; its score is the extension EvaluationInput's. Errors: *fault.Error of the
// kind Invalid, with the field: no tickets, one that isn't in the map or is there twice, an ID that can't be a
// match's, a backfill, an extension that is malformed.
func ToProposal(m *openmatch.Match, tickets map[string]*matchmaking.Ticket) (matchmaking.Proposal, error) {
	p := matchmaking.Proposal{ID: m.GetMatchId()}
	if p.ID != "" {
		if err := matchmaking.CheckMatchID(p.ID); err != nil {
			return matchmaking.Proposal{}, invalid("match_id", "%v", err)
		}
	}
	if m.GetBackfill() != nil {
		return matchmaking.Proposal{}, invalid("backfill", "there are no backfills yet")
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
			return nil, invalid(fmt.Sprintf("tickets[%d].id", i), "there is no ticket %q", id)
		case seen[id]:
			return nil, invalid(fmt.Sprintf("tickets[%d].id", i), "the ticket %q is there twice", id)
		}
		team[i], seen[id] = t, true
	}
	return team, nil
}

// ScoreOf gives the score of a match, 0 where it has none. Errors: *fault.Error of the kind Invalid, with the
// field, where EvaluationInput is no DefaultEvaluationCriteria.
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

// FromProposal gives a proposal as a match of a profile. Its score is the extension EvaluationInput, unless the
// proposal has an extension of this name.
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
