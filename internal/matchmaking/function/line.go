package function

import (
	"slices"

	"github.com/tidwall/btree"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// line is the waiting tickets whose matches have the same form. It groups tickets by their number of players, so that
// tickets that don't fit are never checked one by one.
type line struct {
	form    match
	players int                                  // of all tickets
	bySize  []*btree.BTreeG[*matchmaking.Ticket] // by the number of players, the oldest first; nil: there was none
}

// add adds a ticket with at most as many players as a team.
func (l *line) add(t *matchmaking.Ticket) {
	n := t.Party()
	for len(l.bySize) <= n {
		l.bySize = append(l.bySize, nil)
	}
	if l.bySize[n] == nil {
		l.bySize[n] = newTree(func(a, b *matchmaking.Ticket) bool { return matchmaking.CompareAge(a, b) < 0 })
	}
	l.bySize[n].Set(t)
	l.players += n
}

func (l *line) remove(t *matchmaking.Ticket) {
	l.bySize[t.Party()].Delete(t)
	l.players -= t.Party()
}

// canMatch reports whether there are enough players for a match.
func (l *line) canMatch() bool { return l.players >= l.form.Players() }

// removeMatch removes the tickets of one match, and returns them by team; nil: there is no match.
func (l *line) removeMatch() [][]*matchmaking.Ticket {
	if !l.canMatch() {
		return nil
	}
	if l.bySize[1] != nil && l.bySize[1].Len() == l.players {
		return alternate(l.removeSingles(), l.form.Teams)
	}
	counts := make([]int, len(l.bySize))
	for n := range l.bySize {
		counts[n] = l.len(n)
	}
	for _, seed := range l.heads() {
		counts[seed]--
		if plan := l.form.Plan(seed, counts); plan != nil {
			return l.seat(seed, plan)
		}
		counts[seed]++
	}
	return nil
}

func (l *line) len(n int) int {
	if l.bySize[n] == nil {
		return 0
	}
	return l.bySize[n].Len()
}

// removeSingles removes the tickets of a match, the oldest, from a line without parties.
func (l *line) removeSingles() []*matchmaking.Ticket {
	taken := make([]*matchmaking.Ticket, l.form.Players())
	for i := range taken {
		taken[i], _ = l.bySize[1].PopMin()
	}
	l.players -= len(taken)
	return taken
}

// heads returns the sizes of tickets, that of the oldest ticket first.
func (l *line) heads() []int {
	var sizes []int
	for n := range l.bySize {
		if l.len(n) > 0 {
			sizes = append(sizes, n)
		}
	}
	slices.SortFunc(sizes, func(a, b int) int { return matchmaking.CompareAge(l.nth(a, 0), l.nth(b, 0)) })
	return sizes
}

// nth returns a ticket of n players by its place among them; nil: there are fewer.
func (l *line) nth(n, place int) *matchmaking.Ticket {
	t, _ := l.bySize[n].GetAt(place)
	return t
}

// seat removes the tickets of a match that has a plan. If the oldest tickets, from the seed on, fill it as they come,
// the plan isn't needed.
func (l *line) seat(seed int, plan [][]int) [][]*matchmaking.Ticket {
	teams := l.inTurn(seed)
	if teams == nil {
		teams = l.planned(plan)
	}
	for _, team := range teams {
		for _, t := range team {
			l.remove(t)
		}
	}
	return teams
}

// inTurn gives each ticket the next team with enough free slots: first the oldest of the seed's size, then all by age.
// It returns nil if no ticket is small enough for a slot that is left.
func (l *line) inTurn(seed int) [][]*matchmaking.Ticket {
	seats, teams := l.form.Seats(), make([][]*matchmaking.Ticket, l.form.Teams)
	next := make([]int, len(l.bySize)) // place of the oldest ticket without a team, by size
	for n := seed; n > 0; n = l.oldest(next, seats.Largest()) {
		team, _ := seats.Seat(n)
		teams[team] = append(teams[team], l.nth(n, next[n]))
		next[n]++
	}
	if seats.Remaining > 0 {
		return nil
	}
	return teams
}

// oldest returns the size of the oldest ticket without a team of at most so many players; 0: there is none.
func (l *line) oldest(next []int, maxCount int) int {
	size := 0
	var first *matchmaking.Ticket
	for n := 1; n < min(len(l.bySize), maxCount+1); n++ {
		if l.len(n) > next[n] {
			if t := l.nth(n, next[n]); first == nil || matchmaking.CompareAge(t, first) < 0 {
				first, size = t, n
			}
		}
	}
	return size
}

// planned returns the oldest tickets of the sizes of a plan.
func (l *line) planned(plan [][]int) [][]*matchmaking.Ticket {
	teams, next := make([][]*matchmaking.Ticket, len(plan)), make([]int, len(l.bySize))
	for i, sizes := range plan {
		for _, n := range sizes {
			teams[i] = append(teams[i], l.nth(n, next[n]))
			next[n]++
		}
	}
	return teams
}
