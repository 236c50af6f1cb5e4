package function

import (
	"context"
	"slices"
	"time"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// FirstCome returns a Matcher that matches the oldest tickets with the same number of teams and the same team size,
// which is counted in players. The arguments, which are at least 1, apply to tickets that don't set them. The tickets
// of a match are assigned to its teams in turn, the oldest to team 0.
//
// A ticket of several players is assigned to the first team, in turn, with enough free slots. A ticket for which no
// team has room is left out, and waits for the next match. All teams of a match are full. If the oldest tickets don't
// fill the teams exactly, the match is the oldest ticket and others that do, the largest parties first. If there are
// none, the same is tried with the oldest ticket of each other size. A ticket of more players than a team is never
// matched.
//
// Add and Remove take O(log n) time for n waiting tickets. The cost of a round grows only with the matches it makes,
// and, with parties, with the size of a match for each form that has a new ticket.
func FirstCome(teams, teamSize int) matchmaking.Matcher {
	return &firstCome{
		queue:   match{Teams: max(teams, 1), Size: max(teamSize, 1)},
		waiting: make(map[string]*matchmaking.Ticket),
		lines:   make(map[match]*line),
		ripe:    make(map[match]bool),
	}
}

type firstCome struct {
	queue   match
	waiting map[string]*matchmaking.Ticket
	lines   map[match]*line // no line is empty
	ripe    map[match]bool  // whose lines had enough players after an Add
}

// Add implements Matcher.
func (f *firstCome) Add(t *matchmaking.Ticket) {
	f.Remove(t.ID)
	s := f.queue.With(t.NumTeams, t.TeamSize)
	if t.Party() > s.Size {
		return
	}
	l := f.lines[s]
	if l == nil {
		l = &line{form: s}
		f.lines[s] = l
	}
	l.add(t)
	f.waiting[t.ID] = t
	if l.canMatch() {
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
	l := f.lines[f.queue.With(t.NumTeams, t.TeamSize)]
	l.remove(t)
	f.dropEmpty(l)
}

func (f *firstCome) dropEmpty(l *line) {
	if l.players == 0 {
		delete(f.lines, l.form)
	}
}

// Match implements Matcher. It returns no error and ignores ctx.
func (f *firstCome) Match(context.Context, time.Time) ([]matchmaking.Proposal, error) {
	var proposals []matchmaking.Proposal
	for s := range f.ripe {
		l := f.lines[s]
		if l == nil {
			continue
		}
		for teams := l.removeMatch(); teams != nil; teams = l.removeMatch() {
			for _, team := range teams {
				for _, t := range team {
					delete(f.waiting, t.ID)
				}
			}
			proposals = append(proposals, matchmaking.Proposal{Teams: teams})
		}
		f.dropEmpty(l)
	}
	clear(f.ripe)
	slices.SortFunc(proposals, func(a, b matchmaking.Proposal) int {
		return matchmaking.CompareAge(a.Teams[0][0],
			b.Teams[0][0])
	})
	return proposals, nil
}

// Next implements Matcher. The passing of time makes no match possible.
func (f *firstCome) Next() time.Time { return time.Time{} }

// newTree returns an ordered tree for use by one goroutine.
func newTree[T any](less func(a, b T) bool) *btree.BTreeG[T] {
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}
