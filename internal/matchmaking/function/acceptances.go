package function

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Crowd is tickets that wait at the same time, with the pools that they pass.
type Crowd struct {
	Tickets []*matchmaking.Ticket
	Pools   [][]int // for each ticket the pools that it passes, as PoolsOf returns them
	Now     time.Time
}

// PoolsOf returns the pools of a profile that a ticket passes, by their places. Without pools it is {0}.
func PoolsOf(p matchmaking.Profile, t *matchmaking.Ticket) []int {
	if len(p.Pools) == 0 {
		return []int{0}
	}
	var passed []int
	for i, pool := range p.Pools {
		if Pass(pool, t) {
			passed = append(passed, i)
		}
	}
	return passed
}

// Acceptances returns, for the first tickets of a crowd, how many others a built-in match function could match them
// with. For first-come every ticket accepts every other one. It returns nil for match functions that aren't built in.
// It compares each of the first tickets with all tickets, and fails only with ctx.
func Acceptances(ctx context.Context, m matchmaking.Match, c Crowd, first int) ([]matchmaking.AcceptanceCounts, error) {
	if m.Function != matchmaking.MatchFirstCome && m.Function != matchmaking.MatchCriteria {
		return nil, nil
	}
	criteria := newCriteria(OptionsOf(m), defaultBounds)
	entries := make([]*entry, len(c.Tickets))
	forms := make([]match, len(c.Tickets))
	for i, t := range c.Tickets {
		entries[i], forms[i] = newEntry(t, uint64(i)), criteria.queue.With(t.NumTeams, t.TeamSize)
		if m.Function == matchmaking.MatchCriteria {
			entries[i].widen(criteria.rules, c.Now)
		}
	}
	answers := make([]matchmaking.AcceptanceCounts, min(first, len(c.Tickets)))
	for i := range answers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for j, other := range entries {
			if i != j && forms[i] == forms[j] && c.sharePool(i, j) {
				criteria.rules.count(&answers[i], entries[i], other)
			}
		}
	}
	return answers, nil
}

// sharePool reports whether two tickets, by their places, are in a pool together.
func (c *Crowd) sharePool(a, b int) bool {
	return slices.ContainsFunc(c.Pools[a], func(pool int) bool { return slices.Contains(c.Pools[b], pool) })
}

func (r *rules) count(a *matchmaking.AcceptanceCounts, e, other *entry) {
	a.Others++
	if e.accepts(other) {
		a.Accepts++
	}
	if other.accepts(e) {
		a.AcceptedBy++
	}
	if r.accept(e, other) || r.accept(other, e) {
		a.Candidates++
	}
}
