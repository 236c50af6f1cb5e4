package function

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each row was worked out by hand. Parties are numbered from 1, as in the ticket processor's table.
func TestSeats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		match     match
		parties   []int // their sizes
		teams     [][]int
		remaining int
	}{
		{match{Teams: 2, Size: 3}, []int{1, 1, 1, 1, 1, 1}, [][]int{{1, 3, 5}, {2, 4, 6}}, 0}, // the document's example
		{match{Teams: 2, Size: 3}, []int{2, 1, 1, 2}, [][]int{{1, 3}, {2, 4}}, 0},
		{match{Teams: 2, Size: 3}, []int{3, 2, 2, 1}, [][]int{{1}, {2, 4}}, 0},       // 3 has no room
		{match{Teams: 2, Size: 3}, []int{2, 2, 2, 1, 1}, [][]int{{1, 4}, {2, 5}}, 0}, // 3 has no room
		// 3 is next to team 1 first, which is full: team 0
		{match{Teams: 2, Size: 3}, []int{2, 3, 1}, [][]int{{1, 3}, {2}}, 0},
		{match{Teams: 3, Size: 3}, []int{1, 3, 2, 2, 1}, [][]int{{1, 4}, {2}, {3, 5}}, 0},
		// 3 has no room: the free slots are in two teams
		{match{Teams: 2, Size: 3}, []int{1, 1, 3}, [][]int{{1}, {2}}, 4},
		{match{Teams: 1, Size: 4}, []int{3, 2, 1}, [][]int{{1, 3}}, 0},
	} {
		seats, got := c.match.Seats(), make([][]int, c.match.Teams)
		for i, players := range c.parties {
			largest := seats.Largest()
			team, ok := seats.Seat(players)
			require.Equal(t, players <= largest, ok, "%+v", c)
			if ok {
				got[team] = append(got[team], i+1)
			}
		}
		require.Equal(t, c.teams, got, "%+v", c)
		require.Equal(t, c.remaining, seats.Remaining, "%+v", c)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		match  match
		seed   int
		others []int // by size
		want   [][]int
	}{
		{match{Teams: 2, Size: 3}, 1, []int{0, 1, 0, 1}, nil}, // 5 players
		{match{Teams: 2, Size: 3}, 1, []int{0, 2, 0, 1}, [][]int{{1, 1, 1}, {3}}},
		{match{Teams: 2, Size: 3}, 2, []int{0, 0, 9}, nil}, // only parties of 2
		{match{Teams: 2, Size: 3}, 2, []int{0, 1, 9}, nil}, // one team has a single
		{match{Teams: 2, Size: 3}, 2, []int{0, 2, 9}, [][]int{{2, 1}, {2, 1}}},
		{match{Teams: 1, Size: 6}, 1, []int{0, 0, 1, 1, 1}, [][]int{{1, 3, 2}}}, // not 4, after which 1 is missing
		{match{Teams: 1, Size: 2}, 2, nil, [][]int{{2}}},
		{match{Teams: 1, Size: 2}, 3, []int{0, 5}, nil},
	} {
		require.Equal(t, c.want, c.match.Plan(c.seed, c.others), "%+v", c)
	}
}

// With a party of any size as the seed, Plan fills a match if any choice of parties can.
func TestPlanFindsAMatchIfThereIsOne(t *testing.T) {
	t.Parallel()
	for _, m := range []match{
		{Teams: 1, Size: 7}, {Teams: 2, Size: 3}, {Teams: 2, Size: 5}, {Teams: 2, Size: 6}, {Teams: 3, Size: 4},
		{Teams: 4, Size: 4},
	} {
		enumerate(m, func(counts []int) {
			found := false
			for seed := range counts {
				if counts[seed] == 0 {
					continue
				}
				counts[seed]--
				plan := m.Plan(seed, counts)
				counts[seed]++
				found = found || plan != nil
				requireFull(t, m, plan, counts)
			}
			if possible(m, counts) != found {
				require.Fail(t, "not as it is possible", "%+v of %v", m, counts)
			}
		})
	}
}

// enumerate calls f with each choice of up to 5 parties of each size.
func enumerate(m match, f func([]int)) {
	counts := make([]int, m.Size+1)
	var from func(int)
	from = func(n int) {
		if n > m.Size {
			f(counts)
			return
		}
		for counts[n] = 0; counts[n] <= min(5, m.Teams*m.Size/n); counts[n]++ {
			from(n + 1)
		}
		counts[n] = 0
	}
	from(1)
}

func requireFull(t *testing.T, m match, plan [][]int, counts []int) {
	t.Helper()
	used := make([]int, len(counts))
	for _, team := range plan {
		sum := 0
		for _, n := range team {
			sum += n
			used[n]++
		}
		if sum != m.Size {
			require.Fail(t, "a team isn't full", "%v of %v", plan, counts)
		}
	}
	for n := range used {
		if used[n] > counts[n] {
			require.Fail(t, "a party is in two teams", "%v of %v", plan, counts)
		}
	}
}

// possible tries all choices.
func possible(m match, counts []int) bool {
	visited := map[string]bool{}
	var try func(team, want, maxPlayers int) bool
	try = func(team, want, maxPlayers int) bool {
		if want == 0 {
			return team+1 == m.Teams || try(team+1, m.Size, m.Size)
		}
		bytes := []byte{byte(team), byte(want), byte(maxPlayers)}
		for _, n := range counts {
			bytes = append(bytes, byte(n))
		}
		key := string(bytes)
		found, ok := visited[key]
		for n := min(maxPlayers, want); n > 0 && !ok && !found; n-- {
			if counts[n] > 0 {
				counts[n]--
				found = try(team, want-n, n)
				counts[n]++
			}
		}
		visited[key] = found
		return found
	}
	return try(0, m.Size, m.Size)
}

// The example of the ticket processor that the function criteria follows.
func TestSourceTeamsHaveSums247And349(t *testing.T) {
	t.Parallel()
	type row struct{ player, score int }
	teams := alternate([]row{{1, 35}, {2, 75}, {3, 85}, {4, 115}, {5, 127}, {6, 159}}, 2)
	require.Equal(t, [][]row{{{1, 35}, {3, 85}, {5, 127}}, {{2, 75}, {4, 115}, {6, 159}}}, teams)
	sums := make([]int, len(teams))
	for i, team := range teams {
		for _, member := range team {
			sums[i] += member.score
		}
	}
	require.Equal(t, []int{247, 349}, sums)
}

func TestMatch(t *testing.T) {
	t.Parallel()
	queue := match{Teams: 2, Size: 3}
	for _, c := range []struct {
		teams, size int // of a ticket
		want        match
		players     int
	}{
		{0, 0, queue, 6},
		{4, 0, match{Teams: 4, Size: 3}, 12},
		{0, 1, match{Teams: 2, Size: 1}, 2},
		{1 << 40, 1 << 40, match{Teams: 1 << 40, Size: 1 << 40}, math.MaxInt},
		{-1, -2, match{Teams: -1, Size: -2}, math.MaxInt},
	} {
		got := queue.With(c.teams, c.size)
		require.Equal(t, c.want, got)
		require.Equal(t, c.players, got.Players())
	}
}
