package function

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Decollide is the built-in evaluator. Of proposals that share a ticket it keeps the one with the higher Score; of equal
// ones the one whose oldest ticket is older, and then the one with the lower ID. What it keeps stays in the order given.
// Proposals that share none cost one pass. The zero value is ready, and may be used by many goroutines.
type Decollide struct{}

var _ matchmaking.Evaluator = Decollide{}

// Evaluate is Evaluator's. It returns no error, and doesn't look at ctx.
func (Decollide) Evaluate(_ context.Context, proposals []matchmaking.Proposal) ([]matchmaking.Proposal, error) {
	everyone := make(map[string]struct{}, 2*len(proposals))
	for _, p := range proposals {
		if !takeAll(everyone, p) {
			return decollide(proposals), nil
		}
	}
	return proposals, nil
}

func decollide(proposals []matchmaking.Proposal) []matchmaking.Proposal {
	ranked := make([]contender, len(proposals))
	for i, p := range proposals {
		ranked[i] = contender{Proposal: p, place: i, oldest: createdFirst(p)}
	}
	slices.SortFunc(ranked, contender.compare)
	used := make(map[string]struct{}, 2*len(proposals))
	kept := ranked[:0]
	for _, c := range ranked {
		if takeAll(used, c.Proposal) {
			kept = append(kept, c)
		}
	}
	slices.SortFunc(kept, func(a, b contender) int { return cmp.Compare(a.place, b.place) })
	chosen := make([]matchmaking.Proposal, len(kept))
	for i, c := range kept {
		chosen[i] = c.Proposal
	}
	return chosen
}

// contender is a proposal with what it is ranked by.
type contender struct {
	matchmaking.Proposal
	place  int // among those given
	oldest time.Time
}

// compare has the better one first. A score that is NaN is the worst.
func (c contender) compare(other contender) int {
	return cmp.Or(
		cmp.Compare(other.Score, c.Score),
		c.oldest.Compare(other.oldest),
		cmp.Compare(c.ID, other.ID),
		cmp.Compare(c.place, other.place),
	)
}

// createdFirst gives when the oldest of a proposal's tickets was created.
func createdFirst(p matchmaking.Proposal) time.Time {
	var first time.Time
	for _, team := range p.Teams {
		for _, t := range team {
			if first.IsZero() || t.CreateTime.Before(first) {
				first = t.CreateTime
			}
		}
	}
	return first
}

// takeAll marks a proposal's tickets as used, unless one of them is.
func takeAll(used map[string]struct{}, p matchmaking.Proposal) bool {
	for _, team := range p.Teams {
		for _, t := range team {
			if _, ok := used[t.ID]; ok {
				return false
			}
		}
	}
	for _, team := range p.Teams {
		for _, t := range team {
			used[t.ID] = struct{}{}
		}
	}
	return true
}
