package function_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

// ownFunction is a match function that returns the matches that a test sets, and records its tickets.
type ownFunction struct {
	answer []matchmaking.Proposal
	err    error
	panics bool
	calls  int
	given  map[string][]*matchmaking.Ticket
}

func (f *ownFunction) Match(_ context.Context, _ matchmaking.Profile, pools map[string][]*matchmaking.Ticket) (
	[]matchmaking.Proposal, error) {
	f.calls++
	f.given = pools
	if f.panics {
		panic("oh no")
	}
	return f.answer, f.err
}

func names(tickets []*matchmaking.Ticket) []string {
	all := []string{}
	for _, t := range tickets {
		all = append(all, t.ID)
	}
	return all
}

func tagged(id string, seconds float64, tags ...string) *matchmaking.Ticket {
	t := ticket(id, seconds)
	t.SearchFields.Tags = tags
	return t
}

func pool(name, tag string) matchmaking.Pool {
	return matchmaking.Pool{Name: name, TagsPresent: []matchmaking.TagPresent{{Tag: tag}}}
}

func TestCustomGivesThePoolsWhenTheyHaveChanged(t *testing.T) {
	t.Parallel()
	f := &ownFunction{}
	m := function.Custom(matchmaking.Profile{Pools: []matchmaking.Pool{pool("europe", "eu"), pool("tests", "beta")}}, f,
		0)
	require.Empty(t, match(t, m, 1))
	require.Zero(t, f.calls, "there is no ticket")

	addAll(m, tagged("c", 3, "eu"), tagged("a", 1, "eu", "beta"), tagged("b", 2, "eu"), tagged("d", 4))
	require.Empty(t, match(t, m, 5))
	require.Equal(t, []string{"a", "b", "c"}, names(f.given["europe"]))
	require.Equal(t, []string{"a"}, names(f.given["tests"]))
	require.Len(t, f.given, 2)

	m.Add(tagged("e", 5))
	m.Remove("d")
	m.Remove("unknown")
	require.Empty(t, match(t, m, 6))
	require.Equal(t, 1, f.calls, "no pool has changed")
	require.Zero(t, m.Next())

	m.Remove("a")
	require.Empty(t, match(t, m, 7))
	require.Equal(t, 2, f.calls)
	require.Equal(t, []string{"b", "c"}, names(f.given["europe"]))
	require.Empty(t, f.given["tests"])
}

func TestCustomWithoutPoolsGivesEveryone(t *testing.T) {
	t.Parallel()
	f := &ownFunction{}
	m := function.Custom(matchmaking.Profile{}, f, 0)
	addAll(m, ticket("b", 2), ticket("a", 1))
	match(t, m, 3)
	require.Equal(t, []string{"a", "b"}, names(f.given[function.Everyone]))
}

// TestCustomLimitsWhatItGives tests that a function gets no more tickets of a pool than the limit, and each at some
// time.
func TestCustomLimitsWhatItGives(t *testing.T) {
	t.Parallel()
	f := &ownFunction{}
	m := function.Custom(matchmaking.Profile{Pools: []matchmaking.Pool{pool("europe", "eu"), pool("tests", "beta")}}, f,
		2)
	addAll(m, tagged("a", 1, "eu"), tagged("b", 2, "eu"), tagged("c", 3, "eu"), tagged("d", 4, "eu", "beta"))
	f.err = errors.New("down")
	_, err := m.Match(t.Context(), start)
	require.ErrorIs(t, err, f.err)
	f.err = nil
	require.Empty(t, match(t, m, 5))
	require.Equal(t, []string{"a", "b"}, names(f.given["europe"]), "those of the call that failed")
	require.Equal(t, []string{"d"}, names(f.given["tests"]))
	require.Equal(t, start.Add(6*time.Second), m.Next(), "there are others")
	f.answer = []matchmaking.Proposal{{Teams: [][]*matchmaking.Ticket{{tagged("a", 1, "eu")},
		{tagged("d", 4, "eu", "beta")}}}}
	_, err = m.Match(t.Context(), start.Add(6*time.Second))
	require.ErrorIs(t, err, function.ErrProposal)
	require.ErrorContains(t, err, "ticket a was not among", "it got that one in another call")
	f.answer = nil
	require.Empty(t, match(t, m, 6))
	require.Equal(t, []string{"c", "d"}, names(f.given["europe"]), "those that it didn't get yet")
	m.Remove("a")
	m.Remove("b")
	require.Empty(t, match(t, m, 7))
	require.Equal(t, []string{"c", "d"}, names(f.given["europe"]))
	require.Zero(t, m.Next(), "it has seen all together")
}

func TestCustomTakesOutWhatIsProposed(t *testing.T) {
	t.Parallel()
	a, b, c := ticket("a", 1), ticket("b", 2), ticket("c", 3)
	copied := *b
	f := &ownFunction{answer: []matchmaking.Proposal{
		{ID: "first", Teams: [][]*matchmaking.Ticket{{a}, {&copied}}, Score: 2},
		{Teams: [][]*matchmaking.Ticket{{b, a}}},
	}}
	m := function.Custom(matchmaking.Profile{}, f, 0)
	addAll(m, a, b, c)
	got := match(t, m, 4)
	require.Equal(t, []string{"a | b", "b a"}, ids(got))
	require.Equal(t, "first", got[0].ID)
	require.Same(t, b, got[0].Teams[1][0], "the ticket that is known, not the function's copy")

	require.Equal(t, start.Add(4e9), m.Next(), "perhaps it proposes more")
	f.answer = nil
	require.Empty(t, match(t, m, 5))
	require.Equal(t, []string{"c"}, names(f.given[function.Everyone]))
	require.Zero(t, m.Next())
	require.Empty(t, match(t, m, 6))
	require.Equal(t, 2, f.calls)
}

func TestCustomRefusesWhatCannotBeAMatch(t *testing.T) {
	t.Parallel()
	a, b := ticket("a", 1), ticket("b", 2)
	teams := func(all ...*matchmaking.Ticket) [][]*matchmaking.Ticket { return [][]*matchmaking.Ticket{all} }
	cases := []struct {
		why    string
		answer []matchmaking.Proposal
	}{
		{"duplicate ticket b", []matchmaking.Proposal{{Teams: teams(a)}, {Teams: [][]*matchmaking.Ticket{{b}, {b}}}}},
		{"ticket z was not among those passed to the function",
			[]matchmaking.Proposal{{ID: "m", Teams: teams(a, ticket("z", 1))}}},
		{"match m: no tickets", []matchmaking.Proposal{{ID: "m", Teams: [][]*matchmaking.Ticket{{}, {}}}}},
		{"nil ticket", []matchmaking.Proposal{{Teams: teams(nil)}}},
		{"duplicate match ID m", []matchmaking.Proposal{{ID: "m", Teams: teams(a)}, {ID: "m", Teams: teams(b)}}},
		{"proposal 1", []matchmaking.Proposal{{Teams: teams(a)}, {ID: "{m}", Teams: teams(b)}}},
	}
	for _, c := range cases {
		f := &ownFunction{answer: c.answer}
		m := function.Custom(matchmaking.Profile{}, f, 0)
		addAll(m, a, b)
		_, err := m.Match(t.Context(), start)
		require.ErrorIs(t, err, function.ErrProposal)
		require.ErrorContains(t, err, c.why)

		f.answer = []matchmaking.Proposal{{Teams: teams(a, b)}}
		require.Equal(t, []string{"a b"}, ids(match(t, m, 1)), "after %q", c.why)
	}
}

func TestCustomFailsWithItsFunction(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	f := &ownFunction{err: broken}
	m := function.Custom(matchmaking.Profile{}, f, 0)
	m.Add(ticket("a", 1))
	for calls := 1; calls < 3; calls++ {
		_, err := m.Match(t.Context(), start)
		require.ErrorIs(t, err, broken)
		require.Equal(t, calls, f.calls, "it is asked again")
	}
}

func TestCustomOutlivesAPanicOfItsFunction(t *testing.T) {
	t.Parallel()
	a, b := ticket("a", 1), ticket("b", 2)
	f := &ownFunction{panics: true, answer: []matchmaking.Proposal{{ID: "m", Teams: [][]*matchmaking.Ticket{{a}, {b}}}}}
	m := function.Custom(matchmaking.Profile{}, f, 0)
	m.Add(a)
	m.Add(b)
	_, err := m.Match(t.Context(), start)
	require.ErrorIs(t, err, function.ErrPanic)
	require.ErrorContains(t, err, "oh no")
	f.panics = false
	proposals, err := m.Match(t.Context(), start)
	require.NoError(t, err)
	require.Len(t, proposals, 1)
}
