package function

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// FirstCome returns a Matcher that matches the oldest tickets with the same number of teams and the same team size. The
// arguments, which are at least 1, apply to tickets that don't set them. The tickets of a match are assigned to its teams
// in turn, the oldest to team 0.
//
// Add and Remove take O(log n) time for n waiting tickets. The cost of a round grows only with the matches it makes.
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
	lines   map[shape]*btree.BTreeG[*matchmaking.Ticket] // the oldest first; no line is empty
	ripe    map[shape]bool                               // lines that had enough tickets after an Add
}

// Add implements Matcher.
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

// Remove implements Matcher.
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

// Match implements Matcher. It returns no error and ignores ctx.
func (f *firstCome) Match(context.Context, time.Time) ([]matchmaking.Proposal, error) {
	var proposals []matchmaking.Proposal
	for s := range f.ripe {
		for f.lines[s] != nil && f.lines[s].Len() >= s.players() {
			proposals = append(proposals, matchmaking.Proposal{Teams: alternate(f.take(s), s.teams)})
		}
	}
	clear(f.ripe)
	slices.SortFunc(proposals, func(a, b matchmaking.Proposal) int { return older(a.Teams[0][0], b.Teams[0][0]) })
	return proposals, nil
}

// take removes the tickets of one match, the oldest, from a line that has enough.
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

// Next implements Matcher. The passing of time makes no match possible.
func (f *firstCome) Next() time.Time { return time.Time{} }

// newTree returns an ordered tree for use by one goroutine.
func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}
