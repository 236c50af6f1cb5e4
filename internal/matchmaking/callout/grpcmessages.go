package callout

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/openmatch/convert"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// profileOf returns the profile for a call of a function. A profile without pools gets the pools of the call, without
// filters: Open Match's functions query tickets by pool.
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

// foundOf converts a match proposed by a function. Its tickets are assigned in turn to the given number of teams, at
// most one team per ticket. An evaluation_input of an unknown type is left to the function's own evaluator.
func foundOf(match *openmatch.Match, teams int) (found, error) {
	a := found{ID: match.GetMatchId()}
	if match.GetBackfill() != nil {
		return found{}, fmt.Errorf("match %q has a backfill, which is not supported", a.ID)
	}
	if match.GetExtensions()[convert.EvaluationInput].MessageIs((*openmatch.DefaultEvaluationCriteria)(nil)) {
		score, err := convert.ScoreOf(match)
		if err != nil {
			return found{}, fmt.Errorf("match %q: %w", a.ID, err)
		}
		a.Score = score
	}
	extensions, err := convert.ToExtensions(match.GetExtensions())
	if err != nil {
		return found{}, fmt.Errorf("match %q: %w", a.ID, err)
	}
	a.Extensions = extensions
	a.Teams = make([][]string, min(teams, len(match.GetTickets())))
	for i, t := range match.GetTickets() {
		a.Teams[i%len(a.Teams)] = append(a.Teams[i%len(a.Teams)], t.GetId())
	}
	return a, nil
}

// matchOf converts a proposal for an evaluator. It always has a score: Open Match's default evaluator ranks matches
// without one last.
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
