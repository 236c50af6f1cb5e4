package callout

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/openmatch/convert"
)

// profileOf is what a function is called with. A profile without pools has those that the queue gives it, without
// filters: Open Match's functions ask for tickets pool by pool.
func profileOf(
	queue string, p matchmaking.Profile, pools map[string][]*matchmaking.Ticket,
) (*openmatch.MatchProfile, error) {
	if p.Name == "" {
		p.Name = queue
	}
	profile := convert.FromProfile(p)
	if len(p.Pools) == 0 {
		for _, name := range slices.Sorted(maps.Keys(pools)) {
			profile.Pools = append(profile.Pools, &openmatch.Pool{Name: name})
		}
	}
	name, err := anypb.New(wrapperspb.String(queue))
	if err != nil {
		return nil, err
	}
	profile.Extensions = map[string]*anypb.Any{extensionQueue: name}
	return profile, nil
}

// answeredOf reads a match that a function proposes. Its tickets are dealt out to teams, or to as many as there are
// tickets. An evaluation_input of another type than the usual is for the function's own evaluator.
func answeredOf(match *openmatch.Match, teams int) (answered, error) {
	a := answered{ID: match.GetMatchId()}
	if match.GetBackfill() != nil {
		return answered{}, fmt.Errorf("match %q has a backfill, which there aren't yet", a.ID)
	}
	if match.GetExtensions()[convert.EvaluationInput].MessageIs((*openmatch.DefaultEvaluationCriteria)(nil)) {
		score, err := convert.ScoreOf(match)
		if err != nil {
			return answered{}, fmt.Errorf("match %q: %w", a.ID, err)
		}
		a.Score = score
	}
	extensions, err := convert.ToExtensions(match.GetExtensions())
	if err != nil {
		return answered{}, fmt.Errorf("match %q: %w", a.ID, err)
	}
	a.Extensions = extensions
	a.Teams = make([][]string, min(teams, len(match.GetTickets())))
	for i, t := range match.GetTickets() {
		a.Teams[i%len(a.Teams)] = append(a.Teams[i%len(a.Teams)], t.GetId())
	}
	return a, nil
}

// matchOf is what an evaluator is sent. It always has a score: Open Match's own evaluator puts matches without one
// behind all others.
func matchOf(p matchmaking.Proposal, profile string) (*openmatch.Match, error) {
	match := convert.FromProposal(p, profile)
	if match.GetExtensions()[convert.EvaluationInput] != nil {
		return match, nil
	}
	score, err := anypb.New(&openmatch.DefaultEvaluationCriteria{Score: p.Score})
	if err != nil {
		return nil, err
	}
	if match.Extensions == nil {
		match.Extensions = map[string]*anypb.Any{}
	}
	match.Extensions[convert.EvaluationInput] = score
	return match, nil
}
