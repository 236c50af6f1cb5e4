package convert

import (
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// EvaluationInput is the name of the extension with a match's score, a DefaultEvaluationCriteria.
const EvaluationInput = "evaluation_input"

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
