package function

import (
	"cmp"
	"math"
)

// match is the form of a match: a number of teams, and of players in each.
type match struct {
	Teams, Size int
}

// With returns the form with the numbers that aren't 0.
func (m match) With(teams, size int) match {
	return match{Teams: cmp.Or(teams, m.Teams, 1), Size: cmp.Or(size, m.Size, 1)}
}

// Players returns the number of players of a match. For an invalid form it is a number that no match can reach.
func (m match) Players() int {
	if m.Teams < 1 || m.Size < 1 || m.Teams > math.MaxInt32/m.Size {
		return math.MaxInt
	}
	return m.Teams * m.Size
}

// Compare orders forms.
func (m match) Compare(other match) int {
	return cmp.Or(cmp.Compare(m.Teams, other.Teams), cmp.Compare(m.Size, other.Size))
}

// alternate assigns the members of a sorted list to teams in turn: the first to team 0, the next to team 1, and after
// the last team to team 0 again.
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
