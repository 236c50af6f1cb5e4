package function

import (
	"cmp"
	"crypto/rand"
	"math"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// shape is what a match looks like. Only tickets that want the same one come into a match.
type shape struct {
	teams, size int
}

// of gives the shape that a ticket wants, in a queue whose shape is s.
func (s shape) of(t *matchmaking.Ticket) shape {
	return shape{teams: cmp.Or(t.NumTeams, s.teams, 1), size: cmp.Or(t.TeamSize, s.size, 1)}
}

// players gives how many tickets a match has; more than there can be, where its numbers aren't sensible, so that there
// is never one.
func (s shape) players() int {
	if s.teams < 1 || s.size < 1 || s.teams > math.MaxInt32/s.size {
		return math.MaxInt
	}
	return s.teams * s.size
}

// compare orders shapes, so that rounds have an order.
func (s shape) compare(other shape) int {
	return cmp.Or(cmp.Compare(s.teams, other.teams), cmp.Compare(s.size, other.size))
}

// alternate puts the members of a sorted list into teams in turn: the first into team 0, the next into team 1, and
// after the last team into team 0 again.
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

// older orders tickets by the time of their creation, and by ID where that is the same.
func older(a, b *matchmaking.Ticket) int {
	return cmp.Or(a.CreateTime.Compare(b.CreateTime), cmp.Compare(a.ID, b.ID))
}

// newMatchID makes an ID that no other server makes. Its chance comes from crypto/rand, and not from ulid's default,
// which is seeded with the time.
func newMatchID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }
