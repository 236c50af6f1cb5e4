// Package sample takes some of many tickets.
package sample

import (
	"math/rand/v2"
	"slices"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Line is tickets in an order. It must be used by one goroutine at a time.
type Line struct {
	less  func(a, b *matchmaking.Ticket) bool
	all   *btree.BTreeG[*matchmaking.Ticket]
	fresh *btree.BTreeG[*matchmaking.Ticket] // those that were never taken
}

// New returns an empty Line.
func New(less func(a, b *matchmaking.Ticket) bool) *Line {
	tree := func() *btree.BTreeG[*matchmaking.Ticket] {
		return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	}
	return &Line{less: less, all: tree(), fresh: tree()}
}

// Add adds a ticket.
func (l *Line) Add(t *matchmaking.Ticket) {
	l.all.Set(t)
	l.fresh.Set(t)
}

// Remove removes a ticket, if it is there.
func (l *Line) Remove(t *matchmaking.Ticket) {
	l.all.Delete(t)
	l.fresh.Delete(t)
}

// Take returns tickets in order, as many as limit at most, and reports whether these are all; a limit of 0 is none. Those
// that were never taken come first, so that none waits for its turn forever; the others are chosen at random, so that any two
// of them are taken together sooner or later.
func (l *Line) Take(limit int) (some []*matchmaking.Ticket, all bool) {
	if limit == 0 || l.all.Len() <= limit {
		l.fresh.Clear()
		return l.all.Items(), true
	}
	taken := make(map[*matchmaking.Ticket]bool, limit)
	for len(some) < limit {
		t, ok := l.fresh.PopMin()
		if !ok {
			break
		}
		taken[t] = true
		some = append(some, t)
	}
	for _, i := range rand.Perm(l.all.Len()) { //nolint:gosec // no secret hangs on it
		if len(some) == limit {
			break
		}
		if t, _ := l.all.GetAt(i); !taken[t] {
			some = append(some, t)
		}
	}
	slices.SortFunc(some, func(a, b *matchmaking.Ticket) int {
		if l.less(a, b) {
			return -1
		}
		return 1
	})
	return some, false
}
