package function

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Decollide is the built-in evaluator. Of proposals that share a ticket it keeps the one with the higher Score, then
// the one with the older oldest ticket, then the one with the lower ID. It keeps the order of the proposals. The zero
// value is ready to use, by several goroutines.
type Decollide struct{}

var _ matchmaking.Evaluator = Decollide{}

// Evaluate implements Evaluator. It returns no error and ignores ctx.
func (Decollide) Evaluate(_ context.Context, proposals []matchmaking.Proposal) ([]matchmaking.Proposal, error) {
	used := make(map[string]struct{}, 2*len(proposals))
	for _, p := range proposals {
		if !markUsed(used, p) {
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
	selected := ranked[:0]
	for _, c := range ranked {
		if markUsed(used, c.Proposal) {
			selected = append(selected, c)
		}
	}
	slices.SortFunc(selected, func(a, b contender) int { return cmp.Compare(a.place, b.place) })
	chosen := make([]matchmaking.Proposal, len(selected))
	for i, c := range selected {
		chosen[i] = c.Proposal
	}
	return chosen
}

// contender is a proposal with its sort keys.
type contender struct {
	matchmaking.Proposal
	place  int // among the arguments
	oldest time.Time
}

// compare orders the better one first. NaN is the lowest score.
func (c contender) compare(other contender) int {
	return cmp.Or(
		cmp.Compare(other.Score, c.Score),
		c.oldest.Compare(other.oldest),
		cmp.Compare(c.ID, other.ID),
		cmp.Compare(c.place, other.place),
	)
}

// createdFirst returns the creation time of a proposal's oldest ticket.
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

// markUsed marks a proposal's tickets as used and reports true, unless one of them is used already.
func markUsed(used map[string]struct{}, p matchmaking.Proposal) bool {
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
