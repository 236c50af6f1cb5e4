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

func duels() matchmaking.Matcher { return function.FirstCome(2, 1) }

func TestFilteredMatchesEachPoolByItself(t *testing.T) {
	t.Parallel()
	m := function.Filtered(matchmaking.Profile{Pools: []matchmaking.Pool{pool("europe", "eu"), pool("asia", "as")}},
		duels)
	addAll(m, tagged("a", 1, "eu"), tagged("b", 2, "as"), tagged("c", 3), tagged("d", 4, "as"), tagged("e", 5))
	require.Equal(t, []string{"b | d"}, ids(match(t, m, 9)))
	m.Add(tagged("f", 6, "eu"))
	m.Remove("a")
	require.Empty(t, match(t, m, 9))
	m.Add(tagged("c", 3, "eu")) // it has another tag now
	require.Equal(t, []string{"c | f"}, ids(match(t, m, 9)))
	require.Zero(t, m.Next())
}

func TestFilteredProposesATicketOnce(t *testing.T) {
	t.Parallel()
	m := function.Filtered(matchmaking.Profile{Pools: []matchmaking.Pool{pool("europe", "eu"), pool("asia", "as")}},
		duels)
	both := func(id string, seconds float64) *matchmaking.Ticket { return tagged(id, seconds, "eu", "as") }
	addAll(m, both("a", 1), both("b", 2), both("c", 3), tagged("d", 4, "as"))
	require.Equal(t, []string{"a | b", "c | d"}, ids(match(t, m, 9)))
	addAll(m, both("a", 1), tagged("e", 5, "as"))
	require.Equal(t, []string{"a | e"}, ids(match(t, m, 9)))
}

func TestFilteredWithoutPoolsIsTheInnerMatcher(t *testing.T) {
	t.Parallel()
	inner := duels()
	require.Same(t, inner, function.Filtered(matchmaking.Profile{}, func() matchmaking.Matcher { return inner }))
}

// failing is a matcher that fails until it is mended.
type failing struct {
	matchmaking.Matcher
	err  error
	next time.Time
}

func (f *failing) Match(ctx context.Context, now time.Time) ([]matchmaking.Proposal, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Matcher.Match(ctx, now)
}

func (f *failing) Next() time.Time { return f.next }

func TestFilteredPutsBackWhatAPoolProposedBeforeAnotherFailed(t *testing.T) {
	t.Parallel()
	made := []*failing{}
	m := function.Filtered(matchmaking.Profile{Pools: []matchmaking.Pool{pool("europe", "eu"), pool("asia", "as")}},
		func() matchmaking.Matcher {
			made = append(made, &failing{Matcher: duels()})
			return made[len(made)-1]
		})
	made[1].err = errors.New("broken")
	made[1].next = start.Add(7)
	addAll(m, tagged("a", 1, "eu", "as"), tagged("b", 2, "eu"), tagged("c", 3, "as"))
	_, err := m.Match(t.Context(), start)
	require.ErrorIs(t, err, made[1].err)
	require.ErrorContains(t, err, `"asia"`)
	require.Equal(t, start.Add(7), m.Next())
	made[0].next = start.Add(6)
	require.Equal(t, start.Add(6), m.Next())

	made[1].err = nil
	require.Equal(t, []string{"a | b"}, ids(match(t, m, 9)))
}
