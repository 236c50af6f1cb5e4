package insight_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/insight"
)

var now = time.Unix(1_000_000, 0)

// ticket returns a ticket that has waited for the given seconds.
func ticket(id string, seconds int, s matchmaking.Spec) *matchmaking.Ticket {
	return &matchmaking.Ticket{ID: id, Spec: s, CreateTime: now.Add(-time.Duration(seconds) * time.Second)}
}

func skill(value float64, ranges ...float64) matchmaking.Spec {
	s := matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "skill", Value: value}}}
	for i := 0; i < len(ranges); i += 2 {
		s.Criteria = append(s.Criteria, matchmaking.Criterion{Name: "skill", MinValue: ranges[i],
			MaxValue: ranges[i+1]})
	}
	return s
}

func examine(t *testing.T, definition string, tickets ...*matchmaking.Ticket) insight.Report {
	t.Helper()
	d, err := matchmaking.ParseDefinition("q", []byte(definition))
	require.NoError(t, err)
	c := function.Crowd{Tickets: tickets, Now: now}
	for _, waiting := range tickets {
		c.Pools = append(c.Pools, function.PoolsOf(d.Profile, waiting))
	}
	r, err := insight.Examine(t.Context(), d.Match, c)
	require.NoError(t, err)
	return r
}

// TestAcceptance: after 30 s, a accepts 1400 to 1700 and b 1500 to 1800; c accepts 1300 to 1500, d all tickets. e needs
// teams of two.
func TestAcceptance(t *testing.T) {
	t.Parallel()
	tickets := func() []*matchmaking.Ticket {
		e := skill(1500)
		e.TeamSize = 2
		all := []*matchmaking.Ticket{
			ticket("d", 70, skill(2000)), ticket("a", 60, skill(1500, 1500, 1600)),
			ticket("b", 40, skill(1650, 1600, 1700)),
			ticket("c", 20, skill(1400, 1300, 1500)), ticket("e", 5, e),
		}
		all[1].SearchFields.Tags = []string{"x", "y"}
		all[2].SearchFields.Tags = []string{"x"}
		all[3].SearchFields.Tags = []string{"y"}
		return all
	}
	const widen = `"widen":[{"after":"30s","by":{"skill":100}}]`
	for name, test := range map[string]struct {
		definition string
		want       string // others, accepts, accepted by, candidates
	}{
		"mutual": {`{"match":{"function":"criteria",` + widen + `}}`,
			"d 3 3 0 0, a 3 2 3 2, b 3 1 2 1, c 3 1 2 1, e 0 0 0 0"},
		"one-sided": {`{"match":{"function":"criteria","acceptance":"one-sided",` + widen + `}}`,
			"d 3 3 0 3, a 3 2 3 3, b 3 1 2 2, c 3 1 2 2, e 0 0 0 0"},
		"narrow": {`{"match":{"function":"criteria"}}`, "d 3 3 0 0, a 3 0 2 0, b 3 0 1 0, c 3 1 1 0, e 0 0 0 0"},
		"narrow, one": {`{"match":{"function":"criteria","acceptance":"one-sided"}}`,
			"d 3 3 0 3, a 3 0 2 2, b 3 0 1 1, c 3 1 1 2, e 0 0 0 0"},
		"first-come": {`{}`, "d 3 3 3 3, a 3 3 3 3, b 3 3 3 3, c 3 3 3 3, e 0 0 0 0"},
		"pools": {
			`{"match":{"function":"criteria",` + widen +
				`},"profile":{"pools":[{"name":"x","tagPresentFilters":[{"tag":"x"}]},{"name":"y","tagPresentFilters":[{"tag":"y"}]}]}}`,
			"d 0 0 0 0, a 2 2 2 2, b 1 1 1 1, c 1 1 1 1, e 0 0 0 0",
		},
		"a function of the operator's": {`{"match":{"function":"http","url":"http://h"}}`, "d, a, b, c, e"},
	} {
		var got []string
		for _, l := range examine(t, test.definition, tickets()...).Longest {
			line := l.ID
			if a := l.Acceptance; a != nil {
				line += fmt.Sprintf(" %d %d %d %d", a.Others, a.Accepts, a.AcceptedBy, a.Candidates)
			}
			got = append(got, line)
		}
		require.Equal(t, test.want, strings.Join(got, ", "), name)
	}
}

// TestRanges: tickets with the same value are in the same range, and a ticket's last value counts.
func TestRanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values []float64 // the wait of each in seconds is the number of values before it
		want   string    // ranges, tickets, and the longest wait
	}{
		"none":                   {},
		"one":                    {[]float64{7}, "7-7 1 0s"},
		"a few":                  {[]float64{3, 1, 2}, "1-1 1 1s, 2-2 1 2s, 3-3 1 0s"},
		"seven":                  {[]float64{1, 2, 3, 4, 5, 6, 7}, "1-1 1 0s, 2-2 1 1s, 3-4 2 3s, 5-5 1 4s, 6-7 2 6s"},
		"many with one value":    {[]float64{1, 1, 1, 1, 2, 3, 4, 5, 6, 7}, "1-1 4 3s, 2-3 2 5s, 4-5 2 7s, 6-7 2 9s"},
		"the last has one value": {[]float64{1, 2, 3, 4, 4, 4}, "1-1 1 0s, 2-2 1 1s, 3-3 1 2s, 4-4 3 5s"},
	} {
		tickets := []*matchmaking.Ticket{ticket("names", 0, matchmaking.Spec{Criteria: skill(0, 1, 2).Criteria})}
		for i, value := range test.values {
			s := skill(value)
			s.Statistics = append([]matchmaking.Statistic{{Name: "skill", Value: 99}}, s.Statistics...)
			tickets = append(tickets, ticket("t", i, s))
		}
		r := examine(t, `{}`, tickets...)
		require.Len(t, r.Statistics, 1)
		var got []string
		for _, waiting := range r.Statistics[0].Ranges {
			got = append(got, fmt.Sprintf("%v-%v %d %s", waiting.Min, waiting.Max, waiting.Tickets, waiting.Waits.Max))
		}
		require.Equal(t, test.want, strings.Join(got, ", "), name)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	var tickets []*matchmaking.Ticket
	for i := range 200 {
		s := matchmaking.Spec{Criteria: []matchmaking.Criterion{{Name: "all"}, {Name: "all"}}, Players: 3}
		for _, name := range []string{"b", "c", "d", "e", "f"}[:5*i/199] {
			s.Criteria = append(s.Criteria, matchmaking.Criterion{Name: name})
		}
		tickets = append(tickets, ticket(fmt.Sprint(i), 200-i, s))
	}
	r := examine(t, `{"match":{"teamSize":3}}`, append(tickets, ticket("later", -1, matchmaking.Spec{}))...)
	require.Equal(t, insight.Waits{P50: 100 * time.Second, P90: 180 * time.Second, P99: 198 * time.Second,
		Max: 200 * time.Second}, r.Waits)
	var names []string
	for _, s := range r.Statistics {
		names = append(names, s.Name)
	}
	require.Equal(t, []string{"all", "b", "c", "d", "e"}, names)
	require.Len(t, r.Longest, insight.MaxLongest)
	longest := r.Longest[0]
	longest.Acceptance = nil
	require.Equal(t, insight.Ticket{ID: "0", Wait: 200 * time.Second, Players: 3}, longest)
	require.Equal(t, insight.Report{}, examine(t, `{}`))
}

// source is a queue with an endless number of identical tickets.
type source struct {
	spec   matchmaking.Spec
	during func(ctx context.Context) error // called during the read of tickets; may be nil
	fields matchmaking.Fields              // the requested fields
}

func (s *source) Waiting(ctx context.Context, r matchmaking.WaitingRequest,
	each func([]*matchmaking.Ticket) error) error {
	s.fields = r.Fields
	for {
		if s.during != nil {
			if err := s.during(ctx); err != nil {
				return err
			}
		}
		if err := each([]*matchmaking.Ticket{ticket("t", 1, s.spec)}); err != nil {
			return fmt.Errorf("read: %w", err)
		}
	}
}

func TestReaderReadsOnlySoMuch(t *testing.T) {
	t.Parallel()
	large := matchmaking.Spec{Criteria: []matchmaking.Criterion{{Name: strings.Repeat("n", 1<<20)}}}
	for examined, s := range map[int]*source{insight.MaxExamined: {}, 31: {spec: large}} {
		r, err := insight.NewReader(s).Report(t.Context(), matchmaking.Definition{},
			matchmaking.QueueState{Searching: 20_000, Pending: 3, Now: now})
		require.NoError(t, err)
		require.Equal(t, examined, r.Examined)
		require.Equal(t, 20_003, r.Waiting)
		require.Empty(t, r.Statistics, "names that long aren't shown")
		require.Equal(t, matchmaking.FieldsMatching, s.fields)
	}
	s := &source{}
	pools := matchmaking.Definition{Profile: matchmaking.Profile{Pools: []matchmaking.Pool{{TagsPresent: []matchmaking.TagPresent{{Tag: "x"}}}}}}
	r, err := insight.NewReader(s).Report(t.Context(), pools, matchmaking.QueueState{Now: now})
	require.NoError(t, err)
	require.Equal(t, matchmaking.FieldsSearch, s.fields)
	require.Equal(t, insight.MaxExamined, r.Waiting)
}

func TestReaderMakesOneReportAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &source{}
		reader := insight.NewReader(s)
		s.during = func(ctx context.Context) error {
			_, err := reader.Report(ctx, matchmaking.Definition{}, matchmaking.QueueState{})
			require.Equal(t, fault.SlugOverloaded, errorOf(t, err).Slug)
			<-ctx.Done()
			return ctx.Err()
		}
		for range 2 { // the first report, which times out, doesn't block the next
			_, err := reader.Report(t.Context(), matchmaking.Definition{}, matchmaking.QueueState{})
			require.Equal(t, fault.SlugUnavailable, errorOf(t, err).Slug)
		}
	})
}

func errorOf(t *testing.T, err error) (clientErr *fault.Error) {
	t.Helper()
	require.ErrorAs(t, err, &clientErr)
	return clientErr
}
