package function

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Filtered applies a profile's pools before matchers. It calls inner once per pool, so that each pool has its own
// Matcher and all tickets of a match are from one pool. A ticket that passes no pool is never matched. A ticket that
// passes several is offered to each of their Matchers in the profile's order, and is removed from all when one proposes
// it. Without pools, Filtered returns inner's Matcher, which receives every ticket.
func Filtered(p matchmaking.Profile, inner func() matchmaking.Matcher) matchmaking.Matcher {
	if len(p.Pools) == 0 {
		return inner()
	}
	f := &filtered{waiting: make(map[string]*matchmaking.Ticket)}
	for _, pool := range p.Pools {
		f.pools = append(f.pools, pooled{Pool: pool, matcher: inner()})
	}
	return f
}

type filtered struct {
	pools   []pooled
	waiting map[string]*matchmaking.Ticket // those that pass a pool
}

type pooled struct {
	matchmaking.Pool
	matcher matchmaking.Matcher
}

// Add implements Matcher.
func (f *filtered) Add(t *matchmaking.Ticket) {
	f.Remove(t.ID)
	for _, pool := range f.pools {
		if Pass(pool.Pool, t) {
			pool.matcher.Add(t)
			f.waiting[t.ID] = t
		}
	}
}

// Remove implements Matcher.
func (f *filtered) Remove(id string) {
	if _, ok := f.waiting[id]; !ok {
		return
	}
	delete(f.waiting, id)
	for _, pool := range f.pools {
		pool.matcher.Remove(id)
	}
}

// Match implements Matcher. If the Matcher of a pool fails, the tickets proposed for earlier pools are added again.
func (f *filtered) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	var all []matchmaking.Proposal
	for _, pool := range f.pools {
		proposals, err := pool.matcher.Match(ctx, now)
		if err != nil {
			f.putBack(all)
			return nil, fmt.Errorf("match pool %q: %w", pool.Name, err)
		}
		for _, p := range proposals {
			for _, t := range p.Tickets() {
				f.Remove(t.ID)
			}
		}
		all = append(all, proposals...)
	}
	return all, nil
}

func (f *filtered) putBack(proposals []matchmaking.Proposal) {
	for _, p := range proposals {
		for _, t := range p.Tickets() {
			f.Add(t)
		}
	}
}

// Next implements Matcher: it returns the earliest time of all pools.
func (f *filtered) Next() time.Time {
	var all []time.Time
	for _, pool := range f.pools {
		if next := pool.matcher.Next(); !next.IsZero() {
			all = append(all, next)
		}
	}
	if len(all) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(all, time.Time.Compare)
}
