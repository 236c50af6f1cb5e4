package backend

import (
	"cmp"
	"context"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// ByScore is the default evaluator, as Open Match's: of proposals that share a ticket or a backfill it accepts the one
// with the higher score, then the one that came first. It decides when all proposals have come. The zero value is ready
// to use, by several goroutines.
type ByScore struct{}

// Evaluate implements Evaluator.
func (ByScore) Evaluate(ctx context.Context, proposals <-chan Proposal, accept func(id string) error) error {
	var all []Proposal
	for open := true; open; {
		var p Proposal
		select {
		case p, open = <-proposals:
			if open && !p.Unrankable {
				p.Content = nil // not needed to decide
				all = append(all, p)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	slices.SortStableFunc(all, func(a, b Proposal) int { return cmp.Compare(b.Score, a.Score) }) // NaN is the lowest
	tickets, backfills := map[string]bool{}, map[string]bool{}
	for _, p := range all {
		used := func(t matchmaking.HandOutTicket) bool { return tickets[t.ID] }
		if p.Backfill != nil && backfills[p.Backfill.ID] || slices.ContainsFunc(p.Tickets, used) {
			continue
		}
		for _, t := range p.Tickets {
			tickets[t.ID] = true
		}
		if p.Backfill != nil && p.Backfill.ID != "" {
			backfills[p.Backfill.ID] = true
		}
		if err := accept(p.ID); err != nil {
			return err
		}
	}
	return nil
}

// Close implements Evaluator.
func (ByScore) Close() {}
