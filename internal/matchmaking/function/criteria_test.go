package function_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

var bySkill = map[string]float64{"skill": 1}

func TestCriteriaTakesTheFittest(t *testing.T) {
	t.Parallel()
	m := function.Criteria(function.CriteriaOptions{Teams: 2, TeamSize: 2, Weights: bySkill})
	addAll(m, skilled("seed", 1, 100, 50), skilled("e", 2, 130, 50), skilled("d", 3, 80, 50), skilled("b", 4, 100, 50),
		skilled("c", 5, 90, 50), skilled("f", 6, 160, 50))
	got := match(t, m, 9)
	require.Equal(t, []string{"seed c | b d"}, ids(got))
	require.InDelta(t, -30, got[0].Score, 0)
	require.Empty(t, match(t, m, 9))
}

func TestCriteriaWidenWithTheWait(t *testing.T) {
	t.Parallel()
	after := func(wait time.Duration, by float64) matchmaking.Widening {
		return matchmaking.Widening{After: matchmaking.Duration(wait), By: map[string]float64{"skill": by, "other": 1}}
	}
	m := function.Criteria(function.CriteriaOptions{
		Teams: 2, TeamSize: 1, Weights: bySkill,
		Widen: []matchmaking.Widening{after(9*time.Second, 50), after(5*time.Second, 100), after(20*time.Second, -3)},
	})
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	addAll(m, skilled("a", 0, 0, 10), skilled("b", 1, 150, 10))
	require.Empty(t, match(t, m, 2))
	require.Equal(t, at(5), m.Next(), "a's first")
	require.Empty(t, match(t, m, 5))
	require.Equal(t, at(6), m.Next(), "b's first")
	require.Empty(t, match(t, m, 6))
	require.Equal(t, at(9), m.Next(), "a's second")
	require.Empty(t, match(t, m, 9.5), "a accepts b, b doesn't accept a")
	require.Equal(t, at(10), m.Next(), "b's second")
	require.Equal(t, []string{"a | b"}, ids(match(t, m, 10)))
	require.Zero(t, m.Next())

	addAll(m, skilled("c", 0, 0, 10), skilled("d", 0, 160, 10))
	require.Equal(t, []string{"c | d"}, ids(match(t, m, 30)), "they had waited before they were added")

	addAll(m, skilled("e", 0, 0, 10), skilled("f", 0, 161, 10))
	require.Empty(t, match(t, m, 30))
	require.Zero(t, m.Next(), "there is nothing more to come")
}

func TestCriteriaNeverAcceptsNaN(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	m := function.Criteria(function.CriteriaOptions{Teams: 2, TeamSize: 1, Weights: bySkill})
	odd := func(id string, value, low, high float64) *matchmaking.Ticket {
		ticket := ticket(id, 1)
		ticket.Statistics = []matchmaking.Statistic{stat("skill", value)}
		ticket.Criteria = []matchmaking.Criterion{between("skill", low, high)}
		return ticket
	}
	addAll(m, odd("a", nan, -inf, inf), odd("b", 1, nan, 5), odd("c", 1, 0, nan), odd("d", 1, 5, 0),
		odd("e", nan, nan, nan))
	require.Empty(t, match(t, m, 9))
	addAll(m, odd("f", inf, 0, inf), odd("g", inf, 1, inf))
	require.Equal(t, []string{"f | g"}, ids(match(t, m, 9)))
}

// With one-sided acceptance a ticket of any age finds one that doesn't accept it.
func TestOneSidedAcceptance(t *testing.T) {
	t.Parallel()
	for _, ages := range [][2]float64{{1, 2}, {2, 1}} {
		finds, found := ticket("finds", ages[0]), ticket("found", ages[1])
		for _, each := range []*matchmaking.Ticket{finds, found} {
			each.Statistics = []matchmaking.Statistic{stat("skill", 1500)}
		}
		finds.Criteria = []matchmaking.Criterion{between("skill", 1400, 1600)}
		found.Criteria = []matchmaking.Criterion{between("skill", 1900, 2100)}
		for _, order := range [][]*matchmaking.Ticket{{finds, found}, {found, finds}} {
			m := function.Criteria(function.CriteriaOptions{
				Teams: 2, TeamSize: 1, Acceptance: matchmaking.AcceptOneSided,
			})
			addAll(m, order[0])
			require.Empty(t, match(t, m, 9))
			addAll(m, order[1])
			require.Equal(t, []string{"finds | found"}, ids(match(t, m, 9)))
		}
	}
}

func TestCriteriaEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m := function.Criteria(function.CriteriaOptions{Teams: 2, TeamSize: 1})
	addAll(m, ticket("a", 1), ticket("b", 2))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Match(ended, start)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"a | b"}, ids(match(t, m, 9)), "nothing was taken out")
}
