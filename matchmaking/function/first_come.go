package function

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// FirstCome makes matches of the oldest tickets that want the same number of teams and the same team size, whatever
// else is in them. A ticket that names none of the two wants the one given here, and one that is below 1 is 1. The
// tickets of a match are put in the teams in turn, the oldest in team 0.
//
// Adding and removing cost the logarithm of how many wait, a round what it matches.
func FirstCome(teams, teamSize int) matchmaking.Matcher {
	return &firstCome{
		queue:   shape{teams: max(teams, 1), size: max(teamSize, 1)},
		waiting: make(map[string]*matchmaking.Ticket),
		lines:   make(map[shape]*btree.BTreeG[*matchmaking.Ticket]),
		ripe:    make(map[shape]bool),
	}
}

type firstCome struct {
	queue   shape
	waiting map[string]*matchmaking.Ticket
	lines   map[shape]*btree.BTreeG[*matchmaking.Ticket] // the oldest first; none is empty
	ripe    map[shape]bool                               // lines that had enough when a ticket was added
}

// Add is Matcher's.
func (f *firstCome) Add(t *matchmaking.Ticket) {
	f.Remove(t.ID)
	s := f.queue.of(t)
	line := f.lines[s]
	if line == nil {
		line = newTree(func(a, b *matchmaking.Ticket) bool { return older(a, b) < 0 })
		f.lines[s] = line
	}
	line.Set(t)
	f.waiting[t.ID] = t
	if line.Len() >= s.players() {
		f.ripe[s] = true
	}
}

// Remove is Matcher's.
func (f *firstCome) Remove(id string) {
	t := f.waiting[id]
	if t == nil {
		return
	}
	delete(f.waiting, id)
	s := f.queue.of(t)
	if line := f.lines[s]; line.Len() > 1 {
		line.Delete(t)
	} else {
		delete(f.lines, s)
	}
}

// Match is Matcher's. It returns no error, and doesn't look at ctx.
func (f *firstCome) Match(context.Context, time.Time) ([]matchmaking.Proposal, error) {
	var proposals []matchmaking.Proposal
	for s := range f.ripe {
		for f.lines[s] != nil && f.lines[s].Len() >= s.players() {
			proposals = append(proposals, matchmaking.Proposal{ID: newMatchID(), Teams: alternate(f.take(s), s.teams)})
		}
	}
	clear(f.ripe)
	slices.SortFunc(proposals, func(a, b matchmaking.Proposal) int { return older(a.Teams[0][0], b.Teams[0][0]) })
	return proposals, nil
}

// take takes the oldest tickets out of a line that has enough for a match.
func (f *firstCome) take(s shape) []*matchmaking.Ticket {
	line := f.lines[s]
	taken := make([]*matchmaking.Ticket, s.players())
	for i := range taken {
		taken[i], _ = line.PopMin()
		delete(f.waiting, taken[i].ID)
	}
	if line.Len() == 0 {
		delete(f.lines, s)
	}
	return taken
}

// Next is Matcher's: time alone brings no match about.
func (f *firstCome) Next() time.Time { return time.Time{} }

// newTree makes an ordered tree that one goroutine uses.
func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}
