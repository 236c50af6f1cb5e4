package function

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// brute is a model of Criteria without index and state: each round compares all tickets by the documented rules.
type brute struct {
	options CriteriaOptions
	waiting map[string]*matchmaking.Ticket
	now     time.Time
}

// add adds a ticket, unless it is larger than a team.
func (b *brute) add(t *matchmaking.Ticket) {
	delete(b.waiting, t.ID)
	if t.Party() <= b.size(t) {
		b.waiting[t.ID] = t
	}
}

// round returns the IDs of the tickets of each match, by team.
func (b *brute) round() [][][]string {
	var matches [][][]string
	all := slices.SortedFunc(maps.Values(b.waiting), func(x, y *matchmaking.Ticket) int {
		return cmp.Or(cmp.Compare(b.teams(x), b.teams(y)), cmp.Compare(b.size(x), b.size(y)),
			matchmaking.CompareAge(x, y))
	})
	for _, seed := range all {
		if b.waiting[seed.ID] == nil {
			continue
		}
		if teams := b.seat(b.line(seed, all)); teams != nil {
			matches = append(matches, teams)
			for _, id := range slices.Concat(teams...) {
				delete(b.waiting, id)
			}
		}
	}
	return matches
}

// seat returns the teams of a seed and its candidates; nil: there is no match.
func (b *brute) seat(line []*matchmaking.Ticket) [][]string {
	m := match{Teams: b.teams(line[0]), Size: b.size(line[0])}
	counts := make([]int, m.Size+1)
	for _, ticket := range line[1:] {
		counts[ticket.Party()]++
	}
	plan := m.Plan(line[0].Party(), counts)
	if plan == nil {
		return nil
	}
	seats, teams := m.Seats(), make([][]string, m.Teams)
	for _, ticket := range line {
		if team, ok := seats.Seat(ticket.Party()); ok {
			teams[team] = append(teams[team], ticket.ID)
		}
	}
	if seats.Remaining == 0 {
		return teams
	}
	teams, line = make([][]string, m.Teams), slices.Clone(line)
	for i, sizes := range plan {
		for _, n := range sizes {
			at := slices.IndexFunc(line, func(ticket *matchmaking.Ticket) bool { return ticket.Party() == n })
			teams[i] = append(teams[i], line[at].ID)
			line = slices.Delete(line, at, at+1)
		}
	}
	return teams
}

// line returns the seed and its candidates, the best first.
func (b *brute) line(seed *matchmaking.Ticket, all []*matchmaking.Ticket) []*matchmaking.Ticket {
	var candidates []*matchmaking.Ticket
	for _, c := range all {
		if b.waiting[c.ID] == nil || c == seed || b.teams(c) != b.teams(seed) || b.size(c) != b.size(seed) {
			continue
		}
		oneSided := b.options.Acceptance == matchmaking.AcceptOneSided
		if b.accepts(seed, c) && (oneSided || b.accepts(c, seed)) {
			candidates = append(candidates, c)
		}
	}
	slices.SortFunc(candidates, func(x, y *matchmaking.Ticket) int {
		missingX, fitX := b.fitness(seed, x)
		missingY, fitY := b.fitness(seed, y)
		return cmp.Or(cmp.Compare(missingX, missingY), cmp.Compare(fitX, fitY), matchmaking.CompareAge(x, y))
	})
	return append([]*matchmaking.Ticket{seed}, candidates...)
}

func (b *brute) score(tickets map[string]*matchmaking.Ticket, teams [][]string) float64 {
	sum := 0.0
	for _, id := range slices.Concat(teams...) {
		_, fitness := b.fitness(tickets[teams[0][0]], tickets[id])
		sum -= fitness
	}
	return sum
}

func (b *brute) teams(t *matchmaking.Ticket) int { return cmp.Or(t.NumTeams, b.options.Teams) }
func (b *brute) size(t *matchmaking.Ticket) int  { return cmp.Or(t.TeamSize, b.options.TeamSize) }

func (b *brute) accepts(t, other *matchmaking.Ticket) bool {
	passed := make(map[string]bool)
	for _, c := range t.Criteria {
		by := 0.0
		for _, w := range b.options.Widen {
			if b.now.Sub(t.CreateTime) >= w.After.Std() {
				by += w.By[c.Name]
			}
		}
		value := last(other, c.Name)
		passed[c.Name] = passed[c.Name] || c.MinValue-by <= value && value <= c.MaxValue+by
	}
	for _, ok := range passed {
		if !ok {
			return false
		}
	}
	return true
}

func (b *brute) fitness(x, y *matchmaking.Ticket) (missing int, sum float64) {
	for _, name := range slices.Sorted(maps.Keys(b.options.Weights)) {
		from, to := last(x, name), last(y, name)
		switch {
		case math.IsNaN(from) != math.IsNaN(to):
			missing++
		case !math.IsNaN(from) && from != to:
			sum += b.options.Weights[name] * math.Abs(from-to)
		}
	}
	return missing, sum
}

// last returns a statistic, or NaN if there is none.
func last(t *matchmaking.Ticket, name string) float64 {
	value := math.NaN()
	for _, s := range t.Statistics {
		if s.Name == name {
			value = s.Value
		}
	}
	return value
}

// Each round proposes exactly the matches of the model, whatever tickets are added, replaced, removed, returned and
// widened.
func TestCriteriaProposesWhatTheModelDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		bounds := defaultBounds
		bounds.first = rapid.SampledFrom([]int{1, 2, 64}).Draw(t, "first looks")
		m := newCriteria(o, bounds)
		b := &brute{options: o, waiting: make(map[string]*matchmaking.Ticket), now: time.Unix(1000, 0)}
		from := rapid.SampledFrom([]int{0, 3, 100}).Draw(t, "parties from")
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			for j := range rapid.IntRange(0, 6).Draw(t, "added") {
				ticket := drawTicket(t, b.now, i*10+j, i >= from)
				if all := slices.Sorted(maps.Keys(b.waiting)); len(all) > 0 &&
					rapid.IntRange(0, 9).Draw(t, "replace") == 0 {
					ticket.ID = rapid.SampledFrom(all).Draw(t, "replaced")
				}
				m.Add(ticket)
				b.add(ticket)
			}
			if all := slices.Sorted(maps.Keys(b.waiting)); len(all) > 0 && rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				id := rapid.SampledFrom(all).Draw(t, "removed")
				m.Remove(id)
				delete(b.waiting, id)
			}
			b.now = b.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
			checkRound(t, m, b)
		}
	})
}

func checkRound(t *rapid.T, m *criteria, b *brute) {
	before := maps.Clone(b.waiting)
	want := b.round()
	proposals, err := m.Match(t.Context(), b.now)
	require.NoError(t, err)
	require.Equal(t, len(want), len(proposals), "matches %v", want)
	for i, p := range proposals {
		require.Equal(t, want[i], teamIDs(p), "match %d", i)
		require.InDelta(t, b.score(before, want[i]), p.Score, 1e-9, "match %d", i)
	}
	require.Len(t, m.entries, len(b.waiting))
	require.True(t, m.Next().IsZero() || m.Next().After(b.now))
	for _, p := range proposals {
		if rapid.IntRange(0, 3).Draw(t, "fell through") > 0 {
			continue
		}
		for _, ticket := range p.Tickets()[1:] {
			m.Add(ticket)
			b.waiting[ticket.ID] = ticket
		}
	}
	if len(b.waiting) == 0 {
		require.Empty(t, m.groups)
	}
}

// However the work of a round is divided, it proposes only matches that the rules allow, and leaves no possible match.
func TestCriteriaLeavesNothingThatCouldBeMatched(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		m := newCriteria(o, bounds{round: 1, intake: rapid.IntRange(1, 5).Draw(t, "intake"), first: 2})
		b := &brute{options: o, waiting: make(map[string]*matchmaking.Ticket), now: time.Unix(1000, 0)}
		from := rapid.SampledFrom([]int{0, 3, 100}).Draw(t, "parties from")
		for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
			for j := range rapid.IntRange(0, 30).Draw(t, "added") {
				ticket := drawTicket(t, b.now, i*100+j, i >= from)
				m.Add(ticket)
				b.add(ticket)
			}
			b.now = b.now.Add(time.Second)
			for again := true; again; again = m.Next().Equal(b.now) {
				proposals, err := m.Match(t.Context(), b.now)
				require.NoError(t, err)
				for _, p := range proposals {
					checkAllowed(t, b, p)
				}
			}
			require.Empty(t, b.round())
		}
	})
}

// checkAllowed checks that the rules allow a match, though other candidates may be better, and removes its tickets.
func checkAllowed(t *rapid.T, b *brute, p matchmaking.Proposal) {
	seed := p.Teams[0][0]
	require.Len(t, p.Teams, b.teams(seed))
	line := b.line(seed, p.Tickets())
	require.Len(t, line, len(p.Tickets()), "of %v all but the seed are candidates, and wait", teamIDs(p))
	for _, team := range p.Teams {
		players := 0
		for _, ticket := range team {
			players += ticket.Party()
		}
		require.Equal(t, b.size(seed), players)
	}
	if len(line) == b.teams(seed)*b.size(seed) {
		require.Equal(t, b.seat(line), teamIDs(p), "without parties others don't change whose turn it is")
	}
	for _, ticket := range p.Tickets() {
		require.Contains(t, b.waiting, ticket.ID)
		delete(b.waiting, ticket.ID)
	}
}

func teamIDs(p matchmaking.Proposal) [][]string {
	all := make([][]string, len(p.Teams))
	for i, team := range p.Teams {
		for _, t := range team {
			all[i] = append(all[i], t.ID)
		}
	}
	return all
}

func drawOptions(t *rapid.T) CriteriaOptions {
	o := CriteriaOptions{
		Teams:    rapid.IntRange(1, 3).Draw(t, "teams"),
		TeamSize: rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "size"),
		Acceptance: rapid.SampledFrom([]matchmaking.Acceptance{matchmaking.AcceptMutual,
			matchmaking.AcceptOneSided}).Draw(t, "acceptance"),
		Weights: rapid.SampledFrom([]map[string]float64{
			nil, {"skill": 1}, {"skill": 0.75, "ping": 0.25}, {"region": 2, "ping": 1},
		}).Draw(t, "weights"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "widenings") {
		name := rapid.SampledFrom([]string{"skill", "ping", "region"}).Draw(t, "widened")
		o.Widen = append(o.Widen, matchmaking.Widening{
			After: matchmaking.Duration(time.Duration(rapid.IntRange(0, 8).Draw(t, "after")) * time.Second),
			By:    map[string]float64{name: float64(rapid.IntRange(1, 3).Draw(t, "by"))},
		})
	}
	return o
}

func drawTicket(t *rapid.T, now time.Time, i int, parties bool) *matchmaking.Ticket {
	ticket := &matchmaking.Ticket{
		ID:         "t" + string(rune('A'+i%26)) + time.Duration(i).String(),
		CreateTime: now.Add(-time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 4}).Draw(t, "waited")) * time.Second),
	}
	if rapid.IntRange(0, 4).Draw(t, "own shape") == 0 {
		ticket.TeamSize = rapid.IntRange(1, 2).Draw(t, "own size")
	}
	if parties {
		ticket.Players = rapid.SampledFrom([]int{0, 1, 1, 2, 2, 3}).Draw(t, "players")
	}
	for _, name := range []string{"skill", "ping", "region"} {
		for range rapid.SampledFrom([]int{1, 1, 1, 0, 2}).Draw(t, "statistics") {
			value := float64(rapid.IntRange(0, 12).Draw(t, name))
			if rapid.IntRange(0, 30).Draw(t, "odd") == 0 {
				value = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Copysign(0, -1)}).Draw(t, "odd value")
			}
			ticket.Statistics = append(ticket.Statistics, matchmaking.Statistic{Name: name, Value: value})
		}
		for range rapid.SampledFrom([]int{0, 0, 1, 1, 2}).Draw(t, "criteria") {
			low := float64(rapid.IntRange(-2, 12).Draw(t, "low"))
			high := low + float64(rapid.SampledFrom([]int{-1, 0, 1, 2, 4, 16}).Draw(t, "width"))
			ticket.Criteria = append(ticket.Criteria, matchmaking.Criterion{Name: name, MinValue: low, MaxValue: high})
		}
	}
	return ticket
}
