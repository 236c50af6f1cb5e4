package function_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

// proposal returns a proposal of tickets, each named by a letter, which were created in the alphabet's order.
func proposal(id, letters string, score float64) matchmaking.Proposal {
	var team []*matchmaking.Ticket
	for _, letter := range letters {
		team = append(team, ticket(string(letter), float64(letter-'a')))
	}
	return matchmaking.Proposal{ID: id, Teams: [][]*matchmaking.Ticket{team}, Score: score}
}

func TestDecollide(t *testing.T) {
	t.Parallel()
	type proposals = []matchmaking.Proposal
	cases := []struct {
		name  string
		given proposals
		want  []string
	}{
		{"none", nil, []string{}},
		{"nothing shared", proposals{proposal("1", "cd", 0), proposal("2", "ab", 9)}, []string{"1", "2"}},
		{"the higher score", proposals{proposal("1", "ab", 1), proposal("2", "bc", 2)}, []string{"2"}},
		{"a loser makes room", proposals{proposal("1", "ab", 1), proposal("2", "bc", 2), proposal("3", "cd", 3)},
			[]string{"1", "3"}},
		{"the older oldest", proposals{proposal("1", "cd", 1), proposal("2", "ad", 1)}, []string{"2"}},
		{"the lower ID", proposals{proposal("2", "ab", 1), proposal("1", "ac", 1)}, []string{"1"}},
		{"NaN is the worst", proposals{proposal("1", "ab", math.NaN()), proposal("2", "bc", math.Inf(-1))},
			[]string{"2"}},
		{"in the order given", proposals{proposal("1", "ab", 1), proposal("2", "cd", 5), proposal("3", "bd", 0)},
			[]string{"1", "2"}},
		{"others aren't touched", proposals{proposal("1", "ab", 1), proposal("2", "bc", 2), proposal("3", "xy", -5)},
			[]string{"2", "3"}},
	}
	for _, c := range cases {
		got, err := function.Decollide{}.Evaluate(t.Context(), c.given)
		require.NoError(t, err)
		accepted := []string{}
		for _, p := range got {
			accepted = append(accepted, p.ID)
		}
		require.Equal(t, c.want, accepted, c.name)
	}
}

// Accepted proposals share no ticket, and each rejected one shares a ticket with an accepted one that isn't worse.
func TestDecollideKeepsAllItCan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var given []matchmaking.Proposal
		for i := range rapid.IntRange(0, 12).Draw(t, "proposals") {
			letters := rapid.StringOfN(rapid.RuneFrom([]rune("abcdefghijkl")), 1, 4, -1).Draw(t, "letters")
			given = append(given, proposal(numbered("m", i), distinct(letters),
				float64(rapid.IntRange(0, 3).Draw(t, "score"))))
		}
		accepted, err := function.Decollide{}.Evaluate(t.Context(), given)
		require.NoError(t, err)
		by := make(map[string]matchmaking.Proposal)
		chosen := make(map[string]bool)
		for _, p := range accepted {
			chosen[p.ID] = true
			for _, member := range p.Tickets() {
				require.NotContains(t, by, member.ID)
				by[member.ID] = p
			}
		}
		for _, p := range given {
			if chosen[p.ID] {
				continue
			}
			better := false
			for _, member := range p.Tickets() {
				winner, ok := by[member.ID]
				better = better || ok && winner.Score >= p.Score
			}
			require.True(t, better, "%s could be kept", p.ID)
		}
	})
}

func distinct(letters string) string {
	seen, all := make(map[rune]bool), ""
	for _, letter := range letters {
		if !seen[letter] {
			seen[letter] = true
			all += string(letter)
		}
	}
	return all
}
