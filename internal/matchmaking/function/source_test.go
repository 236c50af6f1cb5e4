package function

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// The examples of the ticket processor that the function criteria follows.

func TestSourceSearchCriteria(t *testing.T) {
	t.Parallel()
	wanting := compile(t, matchmaking.Spec{Criteria: []matchmaking.Criterion{
		{Name: "skill", MinValue: 1250, MaxValue: 1750},
		{Name: "skill", MinValue: 750, MaxValue: 1000},
		{Name: "gameMode", MinValue: 1, MaxValue: 1},
	}})
	cases := []struct {
		skill, mode float64
		want        bool
	}{
		{1500, 1, true}, {1250, 1, true}, {1750, 1, true}, {750, 1, true}, {1000, 1, true}, {800, 1, true},
		{749.9, 1, false}, {1000.1, 1, false}, {1100, 1, false}, {1249.9, 1, false}, {1751, 1, false},
		{1500, 2, false}, {800, 0, false},
	}
	for _, c := range cases {
		other := compile(t, matchmaking.Spec{Statistics: []matchmaking.Statistic{
			{Name: "skill", Value: c.skill}, {Name: "gameMode", Value: c.mode},
		}})
		require.Equal(t, c.want, wanting.accepts(other), "skill %v, gameMode %v", c.skill, c.mode)
	}
	skillOnly := compile(t, matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "skill", Value: 1500}}})
	require.False(t, wanting.accepts(skillOnly), "without gameMode")
}

func TestSourceFitnessIs195(t *testing.T) {
	t.Parallel()
	r := newRules(CriteriaOptions{Weights: map[string]float64{"skill": 0.75, "ping": 0.25}})
	ticket := compile(t, matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "skill", Value: 1500},
		{Name: "ping", Value: 65}}})
	two := compile(t, matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "skill", Value: 1750},
		{Name: "ping", Value: 35}}})
	require.Equal(t, fitness{value: 195}, r.fitness(ticket, two))
	require.Equal(t, fitness{value: 195}, r.fitness(two, ticket))
}

func compile(t *testing.T, s matchmaking.Spec) *entry {
	t.Helper()
	e := newEntry(&matchmaking.Ticket{ID: "x", Spec: s}, 1)
	e.widen(newRules(CriteriaOptions{}), e.ticket.CreateTime)
	return e
}
