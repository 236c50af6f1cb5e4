package function

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// crowd is how many tickets wait in these tests.
const crowd = 50_000

var epoch = time.Unix(1_000_000, 0)

// player makes a ticket out of names, values and ranges.
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

// scene is a crowd that can't be matched, and those who come to it.
type scene struct {
	name    string
	options CriteriaOptions
	crowd   func(i int) *matchmaking.Ticket
	comers  []*matchmaking.Ticket
	matches int // of the comers
}

func scenes() []scene {
	duel := CriteriaOptions{Teams: 2, TeamSize: 1, Weights: map[string]float64{"skill": 1}}
	oneSided := duel
	oneSided.Acceptance = matchmaking.AcceptOneSided
	fives := CriteriaOptions{Teams: 2, TeamSize: 5, Weights: duel.Weights}
	// Every ten have a skill in common; each wants what nobody has.
	picky := func(i int) *matchmaking.Ticket {
		at := float64(i / 10 * 10)
		return player(fmt.Sprint(i), skill(at), skillBetween(at+9.2, at+9.8))
	}
	team := make([]*matchmaking.Ticket, 10)
	for i := range team {
		team[i] = player(fmt.Sprint("new", i), skill(25_005+float64(i)/10), skillBetween(24_990, 25_020))
	}
	modes := func(mode, level float64) []matchmaking.Statistic {
		return []matchmaking.Statistic{{Name: "mode", Value: mode}, {Name: "level", Value: level}}
	}
	return []scene{
		{"a pair with narrow ranges", duel, picky, []*matchmaking.Ticket{
			player("x", skill(25_005.5), skillBetween(24_990, 25_020)), player("y", skill(25_006.5), skillBetween(24_990, 25_020)),
		}, 1},
		{"a pair with ranges that all are in", duel, picky, []*matchmaking.Ticket{
			player("x", skill(25_000), skillBetween(-1e9, 1e9)), player("y", skill(25_000), skillBetween(-1e9, 1e9)),
		}, 1},
		{"a pair without criteria", duel, picky, []*matchmaking.Ticket{
			player("x", skill(25_000)), player("y", skill(-5)),
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
				matchmaking.Criterion{Name: "level", MinValue: 1e6, MaxValue: 2e6}, matchmaking.Criterion{Name: "mode", MinValue: 0, MaxValue: 1})
		}, []*matchmaking.Ticket{
			player("x", modes(1, 300), matchmaking.Criterion{Name: "mode", MinValue: 1, MaxValue: 1}, matchmaking.Criterion{Name: "level", MinValue: 290, MaxValue: 310}),
			player("y", modes(1, 305), matchmaking.Criterion{Name: "mode", MinValue: 1, MaxValue: 1}, matchmaking.Criterion{Name: "level", MinValue: 290, MaxValue: 310}),
		}, 1},
		{"two fives", fives, picky, team, 1},
		{"one with three quarters of the crowd in its range, who don't want it", duel, func(i int) *matchmaking.Ticket {
			return player(fmt.Sprint(i), skill(float64(i)), skillBetween(float64(i+30_000), float64(i+40_000)), skillBetween(-9, -9))
		}, []*matchmaking.Ticket{player("x", skill(12_000), skillBetween(10_000, 50_000))}, 0},
		{"one for whom nobody is right", duel, picky, []*matchmaking.Ticket{
			player("x", skill(25_005), skillBetween(25_001, 25_009)),
		}, 0},
	}
}

// settled makes a matcher that has looked at a crowd in vain.
func (s scene) settled(t testing.TB) *criteria {
	t.Helper()
	m := newCriteria(s.options, defaultBounds)
	for i := range crowd {
		one := s.crowd(i)
		one.CreateTime = epoch.Add(-time.Second + time.Duration(i)*time.Microsecond)
		m.Add(one)
	}
	for again := true; again; again = !m.Next().IsZero() {
		proposals, err := m.Match(t.Context(), epoch)
		require.NoError(t, err)
		require.Empty(t, proposals)
	}
	return m
}

// With 50,000 tickets waiting, those who come are looked up, and the crowd isn't scanned.
func TestCriteriaLooksAtFew(t *testing.T) {
	t.Parallel()
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := s.settled(t)
			before := m.looks
			for _, one := range s.comers {
				m.Add(one)
			}
			proposals, err := m.Match(t.Context(), epoch)
			require.NoError(t, err)
			require.Len(t, proposals, s.matches)
			t.Logf("%d looks at tickets for %d new ones; %d for the crowd", m.looks-before, len(s.comers), before)
			require.Less(t, m.looks-before, 1000*len(s.comers))
		})
	}
}

// The crowd itself, which comes all at once, costs a few looks a ticket where it can be matched.
func TestCriteriaTakesInACrowdByAndBy(t *testing.T) {
	t.Parallel()
	m := newCriteria(CriteriaOptions{Teams: 2, TeamSize: 1, Weights: map[string]float64{"skill": 1}}, defaultBounds)
	for i := range crowd {
		m.Add(player(fmt.Sprint(i), skill(float64(i%5000))))
	}
	matched, rounds := 0, 0
	for again := true; again; again = !m.Next().IsZero() {
		proposals, err := m.Match(t.Context(), epoch)
		require.NoError(t, err)
		matched += 2 * len(proposals)
		rounds++
	}
	require.Equal(t, crowd, matched)
	require.Greater(t, rounds, 1, "a round ends in time for what is new")
	require.Less(t, m.looks, 200*crowd)
}

// The intervals' answer is that of a scan, whatever was inserted and removed.
func TestIntervalsStab(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tree intervals
		all := map[uint64]interval{}
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			serial := uint64(rapid.IntRange(1, 30).Draw(t, "serial"))
			if n, ok := all[serial]; ok {
				tree.remove(n.span, n.entry)
				delete(all, serial)
				continue
			}
			low := float64(rapid.IntRange(0, 20).Draw(t, "low"))
			n := interval{span: span{low: low, high: low + float64(rapid.IntRange(0, 9).Draw(t, "width"))}, entry: &entry{serial: serial}}
			tree.insert(n.span, n.entry)
			all[serial] = n
		}
		value := float64(rapid.IntRange(-1, 31).Draw(t, "value"))
		var got, want []uint64
		require.True(t, tree.stab(value, func(e *entry) bool {
			got = append(got, e.serial)
			return true
		}))
		for serial, n := range all {
			if n.contains(value) {
				want = append(want, serial)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		require.Equal(t, want, got)
		if len(want) > 0 {
			require.False(t, tree.stab(value, func(*entry) bool { return false }))
		}
	})
}

// BenchmarkCriteria is a few new tickets with 50,000 others waiting.
func BenchmarkCriteria(b *testing.B) {
	for _, s := range scenes() {
		b.Run(s.name, func(b *testing.B) {
			m := s.settled(b)
			comers := make(map[string]bool)
			for _, one := range s.comers {
				comers[one.ID] = true
			}
			for b.Loop() {
				for _, one := range s.comers {
					m.Add(one)
				}
				proposals, err := m.Match(b.Context(), epoch)
				if err != nil || len(proposals) != s.matches {
					b.Fatal(len(proposals), err)
				}
				for _, p := range proposals {
					for _, one := range p.Tickets() {
						if !comers[one.ID] { // it goes back to the crowd
							m.Add(one)
						}
					}
				}
			}
		})
	}
}

// BenchmarkFirstCome is two new tickets that match, with 50,000 others waiting that want other matches.
func BenchmarkFirstCome(b *testing.B) {
	m := FirstCome(2, 1)
	for i := range crowd {
		one := player(fmt.Sprint(i), nil)
		one.NumTeams = crowd + i%7
		m.Add(one)
	}
	pair := []*matchmaking.Ticket{player("x", nil), player("y", nil)}
	for b.Loop() {
		m.Add(pair[0])
		m.Add(pair[1])
		if proposals, _ := m.Match(b.Context(), epoch); len(proposals) != 1 {
			b.Fatal(len(proposals))
		}
	}
}

// BenchmarkCriteriaStream is tickets with skills as they come, a pair of ranges in 50 wide enough, 64 a round.
func BenchmarkCriteriaStream(b *testing.B) {
	m := newCriteria(CriteriaOptions{Teams: 2, TeamSize: 1, Weights: map[string]float64{"skill": 1}}, defaultBounds)
	chance := rand.New(rand.NewPCG(1, 2))
	n := 0
	for b.Loop() {
		at := chance.Float64() * 5000
		one := player(fmt.Sprint(n), skill(at), skillBetween(at-50, at+50))
		one.CreateTime = epoch.Add(time.Duration(n) * time.Microsecond)
		m.Add(one)
		if n++; n%64 == 0 {
			if _, err := m.Match(b.Context(), one.CreateTime); err != nil {
				b.Fatal(err)
			}
		}
	}
}
