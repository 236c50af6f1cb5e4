package function_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

// tester is implemented by *testing.T, *testing.B and *rapid.T.
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
	require.Empty(t, match(t, m, 9))
	require.Zero(t, m.Next())

	addAll(m, ticket("f", 6), ticket("b", 2), ticket("a", 1))
	require.Equal(t, []string{"a e | b f"}, ids(match(t, m, 9)))
}

// Whatever tickets are added, replaced, removed and returned, each match has the oldest tickets of its shape, and no
// possible match is left.
func TestFirstComeIsFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := function.FirstCome(2, 1)
		waiting := map[string]*matchmaking.Ticket{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0, 1, 2:
				ticket := ticket(numbered("t", rapid.IntRange(max(0, i-9), i).Draw(t, "added")),
					float64(rapid.IntRange(0, 5).Draw(t, "created")))
				ticket.NumTeams = rapid.IntRange(0, 3).Draw(t, "teams")
				m.Add(ticket)
				waiting[ticket.ID] = ticket
			case 3:
				id := numbered("t", rapid.IntRange(0, i).Draw(t, "removed"))
				m.Remove(id)
				delete(waiting, id)
			default:
				for _, ticket := range takeOldest(t, match(t, m, 9), waiting) {
					m.Add(ticket)
					waiting[ticket.ID] = ticket
				}
			}
		}
	})
}

// takeOldest checks a round against the waiting tickets, and returns some tickets to add again.
func takeOldest(t *rapid.T, round []matchmaking.Proposal, waiting map[string]*matchmaking.Ticket) (
	back []*matchmaking.Ticket) {
	for _, p := range round {
		for _, ticket := range p.Tickets() {
			require.Contains(t, waiting, ticket.ID)
			delete(waiting, ticket.ID)
		}
		requireOldest(t, p, waiting)
		back = append(back, p.Teams[0][0])
	}
	remaining := map[int]int{}
	for _, ticket := range waiting {
		remaining[wants(ticket)]++
		require.Less(t, remaining[wants(ticket)], wants(ticket), "there are enough for a match")
	}
	return back[:rapid.IntRange(0, len(back)).Draw(t, "fell through")]
}

func byAge(a, b *matchmaking.Ticket) int {
	return cmp.Or(a.CreateTime.Compare(b.CreateTime), cmp.Compare(a.ID, b.ID))
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
	require.True(t, slices.IsSortedFunc(p.Teams, func(a, b []*matchmaking.Ticket) int { return byAge(a[0], b[0]) }))
	require.Len(t, all, teams)
	for _, ticket := range all {
		require.Equal(t, teams, wants(ticket))
		for _, other := range waiting {
			require.False(t, wants(other) == teams && byAge(other, ticket) < 0, "%s before %s", other.ID, ticket.ID)
		}
	}
}
