package function

import (
	"context"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
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
func Acceptances(ctx context.Context, m matchmaking.Match, c Crowd, first int) ([]Acceptance, error) {
	if m.Function != matchmaking.MatchFirstCome && m.Function != matchmaking.MatchCriteria {
		return nil, nil
	}
	return acceptances(ctx, question{
		CriteriaOptions: OptionsOf(m), Tickets: c.Tickets, Subjects: min(first, len(c.Tickets)), Now: c.Now,
		Everyone: m.Function == matchmaking.MatchFirstCome,
		Acquainted: func(a, b int) bool {
			return slices.ContainsFunc(c.Pools[a], func(pool int) bool { return slices.Contains(c.Pools[b], pool) })
		},
	})
}
