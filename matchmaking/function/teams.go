package function

import (
	"cmp"
	"math"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// shape is the form of a match. Only tickets of the same shape are matched.
type shape struct {
	teams, size int
}

// of returns a ticket's shape, in a queue whose shape is s.
func (s shape) of(t *matchmaking.Ticket) shape {
	return shape{teams: cmp.Or(t.NumTeams, s.teams, 1), size: cmp.Or(t.TeamSize, s.size, 1)}
}

// players returns the number of tickets in a match. For an invalid shape it is a number that no match can reach.
func (s shape) players() int {
	if s.teams < 1 || s.size < 1 || s.teams > math.MaxInt32/s.size {
		return math.MaxInt
	}
	return s.teams * s.size
}

// compare orders shapes, for a defined order of proposals.
func (s shape) compare(other shape) int {
	return cmp.Or(cmp.Compare(s.teams, other.teams), cmp.Compare(s.size, other.size))
}

// alternate assigns the members of a sorted list to teams in turn: the first to team 0, the next to team 1, and after the
// last team to team 0 again.
func alternate[T any](sorted []T, teams int) [][]T {
	all := make([][]T, teams)
	for i := range all {
		all[i] = make([]T, 0, (len(sorted)-i+teams-1)/teams)
	}
	for i, member := range sorted {
		all[i%teams] = append(all[i%teams], member)
	}
	return all
}

// older orders tickets by creation time, then by ID.
func older(a, b *matchmaking.Ticket) int {
	return cmp.Or(a.CreateTime.Compare(b.CreateTime), cmp.Compare(a.ID, b.ID))
}
