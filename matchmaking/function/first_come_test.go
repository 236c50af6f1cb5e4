package function_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/function"
)

// tester is what *testing.T, *testing.B and *rapid.T are.
type tester interface {
	require.TestingT
	Context() context.Context
	Helper()
}

func match(t tester, m matchmaking.Matcher, seconds float64) []matchmaking.Proposal {
	t.Helper()
	proposals, err := m.Match(t.Context(), start.Add(time.Duration(seconds*float64(time.Second))))
	require.NoError(t, err)
	return proposals
}

func TestFirstComeTakesTheOldest(t *testing.T) {
	t.Parallel()
	m := function.FirstCome(2, 2)
	addAll(m, ticket("e", 5), ticket("c", 3), ticket("a", 1), ticket("d", 4), ticket("b", 2))
	got := match(t, m, 9)
	require.Equal(t, []string{"a c | b d"}, ids(got))
	require.NoError(t, matchmaking.CheckMatchID(got[0].ID))
	require.Empty(t, match(t, m, 9))
	require.Zero(t, m.Next())

	addAll(m, ticket("f", 6), ticket("b", 2), ticket("a", 1))
	require.Equal(t, []string{"a e | b f"}, ids(match(t, m, 9)))
}

func TestFirstComeOrdersByIDWhereTheTimeIsTheSame(t *testing.T) {
	t.Parallel()
	m := function.FirstCome(1, 2)
	addAll(m, ticket("b", 1), ticket("c", 1), ticket("a", 1))
	require.Equal(t, []string{"a b"}, ids(match(t, m, 9)))
}

func TestFirstComeRemovesAndReplaces(t *testing.T) {
	t.Parallel()
	m := function.FirstCome(2, 1)
	addAll(m, ticket("a", 1), ticket("b", 2))
	m.Remove("a")
	m.Remove("a")
	m.Remove("unknown")
	require.Empty(t, match(t, m, 9))

	addAll(m, ticket("b", 7), ticket("c", 3)) // b is another one now
	require.Equal(t, []string{"c | b"}, ids(match(t, m, 9)))
}

func TestFirstComeKeepsShapesApart(t *testing.T) {
	t.Parallel()
	shaped := func(id string, seconds float64, teams, size int) *matchmaking.Ticket {
		own := ticket(id, seconds)
		own.NumTeams, own.TeamSize = teams, size
		return own
	}
	m := function.FirstCome(2, 1)
	addAll(m,
		shaped("a", 1, 3, 0), shaped("b", 2, 0, 0), shaped("c", 3, 0, 2), shaped("d", 4, 3, 1),
		shaped("e", 5, 2, 1), shaped("f", 6, 3, 0), shaped("g", 7, 1<<40, 1<<40), shaped("h", 8, -1, 1), shaped("i", 9, -1, 1),
	)
	require.Equal(t, []string{"a | d | f", "b | e"}, ids(match(t, m, 9)))
	addAll(m, shaped("j", 10, 1, 1))
	require.Equal(t, []string{"j"}, ids(match(t, m, 11)))
}

// Whatever is added, removed and given back: each match is of the oldest that want it, and none is left that could be.
func TestFirstComeIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := function.FirstCome(2, 1)
		waiting := map[string]*matchmaking.Ticket{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1, 2:
				one := ticket(numbered("t", i), float64(rapid.IntRange(0, 5).Draw(t, "created")))
				one.NumTeams = rapid.IntRange(0, 3).Draw(t, "teams")
				m.Add(one)
				waiting[one.ID] = one
			case 3:
				id := numbered("t", rapid.IntRange(0, i).Draw(t, "removed"))
				m.Remove(id)
				delete(waiting, id)
			default:
				for _, one := range takeOldest(t, match(t, m, 9), waiting) {
					m.Add(one)
					waiting[one.ID] = one
				}
			}
		}
	})
}

// takeOldest checks a round against what waited, and gives one ticket of each match to give back.
func takeOldest(t *rapid.T, round []matchmaking.Proposal, waiting map[string]*matchmaking.Ticket) (back []*matchmaking.Ticket) {
	for _, p := range round {
		for _, one := range p.Tickets() {
			require.Contains(t, waiting, one.ID)
			delete(waiting, one.ID)
		}
		requireOldest(t, p, waiting)
		back = append(back, p.Teams[0][0])
	}
	left := map[int]int{}
	for _, one := range waiting {
		left[wants(one)]++
		require.Less(t, left[wants(one)], wants(one), "there are enough for a match")
	}
	return back[:rapid.IntRange(0, len(back)).Draw(t, "fell through")]
}

func wants(t *matchmaking.Ticket) int {
	if t.NumTeams == 0 {
		return 2
	}
	return t.NumTeams
}

func requireOldest(t *rapid.T, p matchmaking.Proposal, waiting map[string]*matchmaking.Ticket) {
	all := p.Tickets()
	teams := wants(all[0])
	require.True(t, slices.IsSortedFunc(p.Teams, func(a, b []*matchmaking.Ticket) int { return a[0].CreateTime.Compare(b[0].CreateTime) }))
	require.Len(t, all, teams)
	for _, one := range all {
		require.Equal(t, teams, wants(one))
		for _, other := range waiting {
			require.False(t, wants(other) == teams && other.CreateTime.Before(one.CreateTime), "%s before %s", other.ID, one.ID)
		}
	}
}
