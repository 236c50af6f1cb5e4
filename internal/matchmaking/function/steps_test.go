package function

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// crowd is the number of waiting tickets.
const crowd = 10_000

var epoch = time.Unix(1_000_000, 0)

// player returns a ticket with statistics and criteria.
func player(id string, stats []matchmaking.Statistic, criteria ...matchmaking.Criterion) *matchmaking.Ticket {
	return &matchmaking.Ticket{
		ID: id, CreateTime: epoch,
		Spec: matchmaking.Spec{Statistics: stats, Criteria: criteria},
	}
}

func skill(value float64) []matchmaking.Statistic {
	return []matchmaking.Statistic{{Name: "skill", Value: value}}
}

func skillBetween(low, high float64) matchmaking.Criterion {
	return matchmaking.Criterion{Name: "skill", MinValue: low, MaxValue: high}
}

// scene is a crowd that cannot be matched, and tickets that are added to it.
type scene struct {
	name    string
	options CriteriaOptions
	crowd   func(i int) *matchmaking.Ticket
	added   []*matchmaking.Ticket
	matches int // of the added tickets
}

func scenes() []scene {
	duel := CriteriaOptions{Teams: 2, TeamSize: 1, Weights: map[string]float64{"skill": 1}}
	oneSided := duel
	oneSided.Acceptance = matchmaking.AcceptOneSided
	fives := CriteriaOptions{Teams: 2, TeamSize: 5, Weights: duel.Weights}
	// Every ten have the same skill; each accepts only a skill that no ticket has.
	picky := func(i int) *matchmaking.Ticket {
		at := float64(i / 10 * 10)
		return player(fmt.Sprint(i), skill(at), skillBetween(at+9.2, at+9.8))
	}
	team := make([]*matchmaking.Ticket, 10)
	for i := range team {
		team[i] = player(fmt.Sprint("new", i), skill(crowd/2+5+float64(i)/10), skillBetween(crowd/2-10, crowd/2+20))
	}
	pair := func(i int) *matchmaking.Ticket {
		ticket := player(fmt.Sprint(i), skill(float64(i)))
		ticket.Players = 2
		return ticket
	}
	modes := func(mode, level float64) []matchmaking.Statistic {
		return []matchmaking.Statistic{{Name: "mode", Value: mode}, {Name: "level", Value: level}}
	}
	return []scene{
		{"a pair with narrow ranges", duel, picky, []*matchmaking.Ticket{
			player("x", skill(crowd/2+5.5), skillBetween(crowd/2-10, crowd/2+20)),
			player("y", skill(crowd/2+6.5), skillBetween(crowd/2-10, crowd/2+20)),
		}, 1},
		{"a pair with ranges that all are in", duel, picky, []*matchmaking.Ticket{
			player("x", skill(crowd/2), skillBetween(-1e9, 1e9)), player("y", skill(crowd/2), skillBetween(-1e9, 1e9)),
		}, 1},
		{"a pair without criteria", duel, picky, []*matchmaking.Ticket{
			player("x", skill(crowd/2)), player("y", skill(-5)),
		}, 1},
		{"a pair, one-sided", oneSided, func(i int) *matchmaking.Ticket {
			return player(fmt.Sprint(i), skill(float64(i)), skillBetween(float64(i)+1e6, float64(i)+1e6+100))
		}, []*matchmaking.Ticket{
			player("x", skill(-1), skillBetween(-9, -1)), player("y", skill(-2), skillBetween(-9, -1)),
		}, 1},
		{"a healer, for whom all wait", duel, func(i int) *matchmaking.Ticket {
			return player(fmt.Sprint(i), skill(0), skillBetween(1, 1))
		}, []*matchmaking.Ticket{player("x", skill(1), skillBetween(0, 0))}, 1},
		{"a pair by its rarer criterion", duel, func(i int) *matchmaking.Ticket {
			return player(fmt.Sprint(i), modes(float64(i%2), float64(i)),
				matchmaking.Criterion{Name: "level", MinValue: 1e6, MaxValue: 2e6},
				matchmaking.Criterion{Name: "mode", MinValue: 0, MaxValue: 1})
		}, []*matchmaking.Ticket{
			player("x", modes(1, 300), matchmaking.Criterion{Name: "mode", MinValue: 1, MaxValue: 1},
				matchmaking.Criterion{Name: "level", MinValue: 290, MaxValue: 310}),
			player("y", modes(1, 305), matchmaking.Criterion{Name: "mode", MinValue: 1, MaxValue: 1},
				matchmaking.Criterion{Name: "level", MinValue: 290, MaxValue: 310}),
		}, 1},
		{"two fives", fives, picky, team, 1},
		{"a party of two for a crowd of them in teams of three", CriteriaOptions{Teams: 2, TeamSize: 3}, pair,
			[]*matchmaking.Ticket{pair(crowd)}, 0},
		{"one with three quarters of the crowd in its range, who don't want it", duel, func(i int) *matchmaking.Ticket {
			return player(fmt.Sprint(i), skill(float64(i)), skillBetween(float64(i+6_000), float64(i+8_000)),
				skillBetween(-9, -9))
		}, []*matchmaking.Ticket{player("x", skill(2_400), skillBetween(2_000, crowd))}, 0},
		{"one for whom nobody is right", duel, picky, []*matchmaking.Ticket{
			player("x", skill(crowd/2+5), skillBetween(crowd/2+1, crowd/2+9)),
		}, 0},
	}
}

// settled returns a Matcher that has found no match in the crowd.
func (s scene) settled(t testing.TB) *criteria {
	t.Helper()
	m := newCriteria(s.options, defaultBounds)
	for i := range crowd {
		ticket := s.crowd(i)
		ticket.CreateTime = epoch.Add(-time.Second + time.Duration(i)*time.Microsecond)
		m.Add(ticket)
	}
	for again := true; again; again = !m.Next().IsZero() {
		proposals, err := m.Match(t.Context(), epoch)
		require.NoError(t, err)
		require.Empty(t, proposals)
	}
	return m
}

// With 10,000 tickets waiting, new tickets are looked up without a scan of the crowd.
func TestCriteriaTakesFewSteps(t *testing.T) {
	t.Parallel()
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := s.settled(t)
			before := m.steps
			for _, ticket := range s.added {
				m.Add(ticket)
			}
			proposals, err := m.Match(t.Context(), epoch)
			require.NoError(t, err)
			require.Len(t, proposals, s.matches)
			t.Logf("%d steps for %d new tickets; %d for the crowd", m.steps-before, len(s.added), before)
			require.Less(t, m.steps-before, 300*len(s.added))
		})
	}
}

// In a crowd of parties of two that need single players for teams of three, a single player costs a few steps for each
// party that accepts it, however many were added and removed before: no party is searched until there are two single
// players.
func TestCriteriaIsToldOfThoseWhoLeave(t *testing.T) {
	t.Parallel()
	const pairs = 1000
	m := newCriteria(CriteriaOptions{Teams: 2, TeamSize: 3}, defaultBounds)
	add := func(id string, players int) (steps, matches int) {
		before, ticket := m.steps, player(id, skill(0))
		ticket.Players = players
		m.Add(ticket)
		proposals, err := m.Match(t.Context(), epoch)
		require.NoError(t, err)
		return m.steps - before, len(proposals)
	}
	for i := range pairs {
		add(fmt.Sprint("pair", i), 2)
	}
	for i := range 5 {
		steps, matches := add(fmt.Sprint("single", i), 1)
		require.Less(t, steps, 10*pairs)
		require.Zero(t, matches)
		m.Remove(fmt.Sprint("single", i))
	}
	add("one", 1)
	_, matches := add("two", 1)
	require.Equal(t, 1, matches)
}

// A crowd that is added at once, and can be matched, costs a few steps per ticket.
func TestCriteriaMatchesACrowdInSeveralRounds(t *testing.T) {
	t.Parallel()
	m := newCriteria(CriteriaOptions{Teams: 2, TeamSize: 1, Weights: map[string]float64{"skill": 1}}, defaultBounds)
	for i := range 2 * crowd {
		m.Add(player(fmt.Sprint(i), skill(float64(i%2000))))
	}
	matched, rounds := 0, 0
	for again := true; again; again = !m.Next().IsZero() {
		proposals, err := m.Match(t.Context(), epoch)
		require.NoError(t, err)
		matched += 2 * len(proposals)
		rounds++
	}
	require.Equal(t, 2*crowd, matched)
	require.Greater(t, rounds, 1, "a round ends early, so that new tickets are considered")
	require.Less(t, m.steps, 200*2*crowd)
}
