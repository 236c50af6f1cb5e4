package function_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

// party returns a ticket of some players that was created some seconds after start.
func party(id string, seconds float64, players int) *matchmaking.Ticket {
	t := ticket(id, seconds)
	t.Players = players
	return t
}

// parties returns the tickets of a text such as "a2 b1", the oldest first: a represents two players, b one.
func parties(text string) []*matchmaking.Ticket {
	var all []*matchmaking.Ticket
	for i, ticket := range strings.Fields(text) {
		all = append(all, party(ticket[:1], float64(i), int(ticket[1]-'0')))
	}
	return all
}

// Each row was worked out by hand by the rule of the Ticket Processor: the first team with enough available slots, in
// alternating order.
func TestFirstComeSeatsParties(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		teams, size int
		tickets     string
		want        []string
	}{
		{2, 3, "a1 b1 c1 d1 e1 f1", []string{"a c e | b d f"}}, // the document's example
		{2, 3, "a0 b1 c1 d2 e1", []string{"a c e | b d"}},      // 0 is one player
		{2, 3, "a2 b1 c1 d2", []string{"a c | b d"}},
		{2, 3, "a3 b2 c2 d1", []string{"a | b d"}},        // c has no room
		{2, 3, "a2 b2 c2 d1 e1", []string{"a d | b e"}},   // c has no room
		{2, 3, "a2 b1 c1 d1 e1", []string{"a c | b d e"}}, // the oldest party is matched as soon as it fits
		{2, 3, "a1 b1 c3 d1", []string{"a b d | c"}},      // in turn, a and b leave no room for c
		{2, 3, "a2 b3 c3", []string{"b | c"}},             // nobody fits a, which blocks nobody
		{2, 3, "a2 b2 c2 d2", nil},                        // there is no single
		{2, 3, "a4 b1 c1 d1 e1 f1 g1", []string{"b d f | c e g"}},
		{3, 2, "a1 b2 c1 d2", []string{"a c | b | d"}},
		{1, 4, "a2 b1 c3 d1", []string{"a b d"}},
		{1, 2, "a2 b1 c2 d1", []string{"a", "b d", "c"}}, // a party can be a match by itself
		{2, 3, "a3 b3 c3 d2 e1", []string{"a | b", "c | d e"}},
	} {
		m := function.FirstCome(c.teams, c.size)
		all := parties(c.tickets)
		addAll(m, all...)
		require.ElementsMatch(t, c.want, ids(match(t, m, 9)), "%d of %d from %s", c.teams, c.size, c.tickets)
		require.Empty(t, match(t, m, 9))
	}
}

// Each row was worked out by hand: the seed s is the oldest, and the others are its candidates, the best first, with
// the scores of the Ticket Processor's table. Their skills are their fitness.
func TestCriteriaSeatsParties(t *testing.T) {
	t.Parallel()
	scores := []float64{0, 35, 75, 85, 115, 127, 159}
	for _, c := range []struct {
		teams, size int
		tickets     string
		want        []string
		score       float64
	}{
		{2, 3, "s1 a1 b1 c1 d1 e1 f1", []string{"s b d | a c e"}, -437},
		{2, 3, "s2 a1 b1 c2 d1", []string{"s b | a c"}, -195},
		{2, 3, "s1 a3 b2 c2 d1", []string{"s b | a"}, -110},
		{2, 3, "s3 a2 b2 c1 d1", []string{"s | a c"}, -120}, // b has no room
		// in turn, s, b and a, d leave a slot for one more single
		{2, 3, "s1 a2 b1 c3 d1 e2", []string{"s a | c"}, -120},
		{1, 6, "s1 a3 b3 c2", []string{"s a c"}, -120}, // b has no room
		{1, 6, "s1 a4 b3 c2", []string{"s b c"}, -160}, // a leaves a slot, and there is no single player for it
		{2, 3, "s2 a2 b3 c3", []string{"b | c"}, -10},  // nobody fits s and a; b is the next seed
		{2, 3, "s2 a2 b2", nil, 0},
		{2, 3, "s4 a1 b1 c1 d1 e1 f1", []string{"a c e | b d f"}, -386}, // s is larger than a team: a is the seed
	} {
		m := function.Criteria(function.CriteriaOptions{Teams: c.teams, TeamSize: c.size, Weights: bySkill})
		for i, ticket := range parties(c.tickets) {
			ticket.Statistics = []matchmaking.Statistic{stat("skill", scores[i])}
			m.Add(ticket)
		}
		got := match(t, m, 9)
		require.ElementsMatch(t, c.want, ids(got), "%d of %d from %s", c.teams, c.size, c.tickets)
		if len(got) > 0 {
			require.InDelta(t, c.score, got[0].Score, 1e-9, c.tickets)
		}
		require.Empty(t, match(t, m, 9))
	}
}

func TestFirstComeMatchesAnOldPartyOnceOthersFit(t *testing.T) {
	t.Parallel()
	m := function.FirstCome(2, 3)
	addAll(m, parties("a2 b3 c3")...)
	require.Equal(t, []string{"b | c"}, ids(match(t, m, 9)))
	m.Add(party("d", 4, 2))
	require.Empty(t, match(t, m, 9))
	m.Add(party("e", 5, 3))
	require.Empty(t, match(t, m, 9))
	m.Add(party("f", 6, 1))
	require.Equal(t, []string{"a f | e"}, ids(match(t, m, 9)))
	m.Remove("d")
	addAll(m, party("g", 7, 3), party("h", 8, 3))
	require.Equal(t, []string{"g | h"}, ids(match(t, m, 9)), "nothing is left of d")
}

// Whatever tickets are added and removed, all teams are full, a ticket is in one match, and no possible match is left.
func TestFirstComeFillsTeamsOfParties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := function.FirstCome(2, 3)
		waiting := map[string]*matchmaking.Ticket{}
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				id := numbered("t", rapid.IntRange(0, i).Draw(t, "removed"))
				m.Remove(id)
				delete(waiting, id)
			case 1:
				round := match(t, m, 9)
				for _, p := range round {
					require.Len(t, p.Teams, 2)
					for _, team := range p.Teams {
						players := 0
						for _, ticket := range team {
							require.Contains(t, waiting, ticket.ID)
							delete(waiting, ticket.ID)
							players += ticket.Party()
						}
						require.Equal(t, 3, players, "%v", ids(round))
					}
				}
				require.False(t, fillsTwoOfThree(waiting), "%v is left", waiting)
			default:
				ticket := party(numbered("t", rapid.IntRange(0, i).Draw(t, "added")), float64(i),
					rapid.IntRange(0, 4).Draw(t, "players"))
				m.Add(ticket)
				waiting[ticket.ID] = ticket
			}
		}
	})
}

// fillsTwoOfThree reports whether there are two teams of three: each a party of three, a party of two and a single, or
// singles.
func fillsTwoOfThree(waiting map[string]*matchmaking.Ticket) bool {
	var n [5]int
	for _, ticket := range waiting {
		n[ticket.Party()]++
	}
	threes := min(n[3], 2)
	pairs := min(n[2], n[1], 2-threes)
	return n[1]-pairs >= 3*(2-threes-pairs)
}
