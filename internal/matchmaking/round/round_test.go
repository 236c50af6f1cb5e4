package round_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/round"
)

// fakeFunction is a matcher whose Match returns and removes the matches that a test sets.
type fakeFunction struct {
	has       map[string]*matchmaking.Ticket // that are available
	proposals [][][]string                   // teams of IDs
	names     []string                       // of the proposals; missing: ""
	err       error
	now       time.Time // of the last Match
}

func (f *fakeFunction) Add(t *matchmaking.Ticket) { f.has[t.ID] = t }
func (f *fakeFunction) Remove(id string)          { delete(f.has, id) }
func (f *fakeFunction) Next() time.Time           { return time.Time{} }

func (f *fakeFunction) Match(_ context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	f.now = now
	if f.err != nil {
		return nil, f.err
	}
	var all []matchmaking.Proposal
	taken := map[string]*matchmaking.Ticket{}
	for i, teams := range f.proposals {
		var p matchmaking.Proposal
		if i < len(f.names) {
			p.ID = f.names[i]
		}
		for _, ids := range teams {
			var team []*matchmaking.Ticket
			for _, id := range ids {
				t := f.has[id]
				if t == nil {
					t = taken[id]
				}
				if t == nil {
					t = &matchmaking.Ticket{ID: id}
				}
				taken[id] = t
				delete(f.has, id)
				team = append(team, t)
			}
			p.Teams = append(p.Teams, team)
		}
		all = append(all, p)
	}
	return all, nil
}

// evaluatorFunc is an evaluator of one function.
type evaluatorFunc func([]matchmaking.Proposal) ([]matchmaking.Proposal, error)

func (f evaluatorFunc) Evaluate(_ context.Context, p []matchmaking.Proposal) ([]matchmaking.Proposal, error) {
	return f(p)
}

func keepAll(p []matchmaking.Proposal) ([]matchmaking.Proposal, error) { return p, nil }

// ids returns the numbers from 1 to n as ticket IDs.
func ids(n int) []string {
	var list []string
	for i := range n {
		list = append(list, strconv.Itoa(i+1))
	}
	return list
}

func TestRound(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	ticket := func(teams ...[]string) [][][]string { return [][][]string{teams} }
	for name, test := range map[string]struct {
		tickets      []string
		proposals    [][][]string
		names        []string
		functionFn   error
		evaluate     evaluatorFunc
		maxInMatches int
		players      int        // of each ticket
		want         [][]string // tickets of the matches
		available    []string   // afterwards
		refused      int
		err          string
		changed      bool // there may be more matches without waiting for a change
	}{
		"nothing proposed": {tickets: ids(2), available: ids(2)},
		"a match of two teams": {tickets: ids(3), proposals: ticket([]string{"1"}, []string{"2"}),
			want: [][]string{{"1", "2"}}, available: []string{"3"}},
		"two matches": {tickets: ids(4), proposals: [][][]string{{{"1", "3"}}, {{"2", "4"}}},
			want: [][]string{{"1", "3"}, {"2", "4"}}},
		"the function fails": {tickets: ids(2), functionFn: broken, available: ids(2),
			err: "match function: broken"},
		"the evaluator fails": {tickets: ids(2), proposals: ticket(ids(2)),
			evaluate:  func([]matchmaking.Proposal) ([]matchmaking.Proposal, error) { return nil, broken },
			available: ids(2), err: "evaluator: broken"},
		"the evaluator leaves": {tickets: ids(4), proposals: [][][]string{{{"1", "2"}}, {{"3", "4"}}},
			evaluate: func(p []matchmaking.Proposal) ([]matchmaking.Proposal, error) { return p[:1], nil },
			want:     [][]string{{"1", "2"}}, available: []string{"3", "4"}, changed: true},
		"a shared ticket": {tickets: ids(3), proposals: [][][]string{{{"1", "2"}}, {{"2", "3"}}},
			want: [][]string{{"1", "2"}}, available: []string{"3"}, refused: 1, err: "ticket 2, which is not available",
			changed: true},
		"a ticket twice": {tickets: ids(2), proposals: ticket([]string{"1", "1"}), available: ids(2), refused: 1,
			err: "ticket 1 twice"},
		"a ticket it doesn't have": {tickets: ids(1), proposals: ticket([]string{"1", "9"}), available: ids(1), refused: 1,
			err: "ticket 9, which is not available"},
		"no tickets": {tickets: ids(1), proposals: ticket([]string{}), available: ids(1), refused: 1,
			err: "has no tickets"},
		"one ID for two": {tickets: ids(2), proposals: [][][]string{{{"1"}}, {{"2"}}},
			names: []string{"m", "m"}, want: [][]string{{"1"}}, available: []string{"2"}, refused: 1,
			err: "two matches have the ID m", changed: true},
		"the evaluator invents": {tickets: ids(2), proposals: ticket(ids(2)),
			evaluate: func([]matchmaking.Proposal) ([]matchmaking.Proposal, error) {
				return []matchmaking.Proposal{{Teams: [][]*matchmaking.Ticket{{{ID: "9"}}}}}, nil
			}, available: ids(2), refused: 1, err: "ticket 9, which is not available"},
		"an ID that is no name": {tickets: ids(1), proposals: ticket(ids(1)), names: []string{"a b"}, available: ids(1),
			refused: 1, err: "match"},
		"too many tickets": {tickets: ids(101), proposals: ticket(ids(101)), available: ids(101), refused: 1,
			err: "has 101 tickets, at most 100 are allowed"},
		"far too many tickets": {tickets: ids(10_000), proposals: ticket(ids(10_000)), available: ids(10_000),
			refused: 1, err: "has 10000 tickets, at most 100 are allowed"},
		"too many players": {tickets: ids(11), players: 100, proposals: ticket(ids(11)), available: ids(11),
			refused: 1, err: "has 1100 players, at most 1000 are allowed"},
		"a party":                {tickets: ids(10), players: 100, proposals: ticket(ids(10)), want: [][]string{ids(10)}},
		"as many as are allowed": {tickets: ids(100), proposals: ticket(ids(100)), want: [][]string{ids(100)}},
		"more than can be made": {tickets: ids(6), proposals: [][][]string{{{"1", "2"}}, {{"3", "4"}}, {{"5", "6"}}},
			maxInMatches: 3, want: [][]string{{"1", "2"}}, available: []string{"3", "4", "5", "6"}, changed: true},
		"at least one": {tickets: ids(4), proposals: ticket(ids(4)), maxInMatches: 2, want: [][]string{ids(4)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			function := &fakeFunction{has: map[string]*matchmaking.Ticket{}, proposals: test.proposals,
				names: test.names, err: test.functionFn}
			if test.evaluate == nil {
				test.evaluate = keepAll
			}
			if test.maxInMatches == 0 {
				test.maxInMatches = 1000
			}
			r := round.Round{
				Queue: "duel", Matcher: function, Evaluator: test.evaluate,
				MatchTimeout: time.Minute, EvaluateTimeout: time.Minute, MaxInMatches: test.maxInMatches,
			}
			p := round.NewPool(function)
			for _, id := range test.tickets {
				p.Add(&matchmaking.Ticket{ID: id, Spec: matchmaking.Spec{Players: test.players}}, time.Time{})
			}
			p.SetChanged(false)

			f := r.Form(t.Context(), p, time.Unix(7, 0))

			require.Equal(t, time.Unix(7, 0), function.now)
			var got [][]string
			claims := 0
			for _, m := range f.Matches {
				queue, made := matchmaking.QueueOf(m.ID)
				require.True(t, made && queue == "duel" || slices.Contains(test.names, m.ID), m.ID)
				var ids []string
				for _, member := range m.Tickets() {
					ids = append(ids, member.ID)
				}
				got, claims = append(got, ids), claims+len(ids)
			}
			require.Equal(t, test.want, got)
			require.Equal(t, claims, p.InMatches())
			require.Equal(t, test.refused, f.Refused)
			if test.err == "" {
				require.NoError(t, f.Err)
			} else {
				require.ErrorContains(t, f.Err, test.err)
			}
			require.Equal(t, test.changed, p.Changed() && len(f.Matches) > 0)
			var available []string
			for id := range function.has {
				require.NotNil(t, p.Available(id))
				available = append(available, id)
			}
			slices.Sort(available)
			slices.Sort(test.available)
			require.Equal(t, test.available, available)
		})
	}
}
