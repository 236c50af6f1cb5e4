package clock_test

import (
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
)

// positions is the number of clocks, computed from the bounds.
const positions = uint64(clock.Max-clock.Min) + 1

// edges are the clocks at which Lua's number formatting or the sign changes, and the wrap.
var edges = []clock.Clock{0, 1e14, -1e14, clock.Max - 1, clock.Max, clock.Min, clock.Min + 1}

// clocks draws any clock, half of the time one at most a few steps from an edge.
func clocks() *rapid.Generator[clock.Clock] {
	nearEdge := rapid.Custom(func(t *rapid.T) clock.Clock {
		edge := rapid.SampledFrom(edges).Draw(t, "edge")
		return model(edge, rapid.Int64Range(-3, 3).Draw(t, "off"))
	})
	anywhere := rapid.Custom(func(t *rapid.T) clock.Clock {
		return clock.Clock(rapid.Int64Range(int64(clock.Min), int64(clock.Max)).Draw(t, "clock"))
	})
	return rapid.OneOf(nearEdge, anywhere)
}

// steps draws a distance, often close to zero, half of the ring or the whole ring.
func steps() *rapid.Generator[uint64] {
	return rapid.OneOf(
		rapid.Uint64Range(0, 5),
		rapid.Uint64Range(positions/2-2, positions/2+2),
		rapid.Uint64Range(positions-5, positions-1),
		rapid.Uint64Range(0, positions-1),
	)
}

// model moves a clock with arithmetic on big integers.
func model(c clock.Clock, by int64) clock.Clock {
	n := big.NewInt(int64(c) - int64(clock.Min))
	n.Add(n, big.NewInt(by))
	n.Mod(n, new(big.Int).SetUint64(positions))
	return clock.Clock(n.Int64() + int64(clock.Min))
}

// check runs one law on drawn values, in parallel to the other laws.
func check(t *testing.T, name string, law func(*rapid.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, law)
	})
}

func TestStepLaws(t *testing.T) {
	t.Parallel()
	check(t, "Add and Sub are those of the model", func(t *rapid.T) {
		c, n := clocks().Draw(t, "c"), steps().Draw(t, "n")
		require.Equal(t, model(c, int64(n)), c.Add(n))
		require.Equal(t, model(c, -int64(n)), c.Sub(n))
	})
	check(t, "Next is Add(1)", func(t *rapid.T) {
		c := clocks().Draw(t, "c")
		require.Equal(t, c.Add(1), c.Next())
		require.NotEqual(t, c, c.Next())
	})
	check(t, "Sub undoes Add", func(t *rapid.T) {
		c, n := clocks().Draw(t, "c"), steps().Draw(t, "n")
		require.Equal(t, c, c.Add(n).Sub(n))
		require.Equal(t, c, c.Sub(n).Add(n))
	})
	check(t, "steps add up", func(t *rapid.T) {
		c, n, m := clocks().Draw(t, "c"), steps().Draw(t, "n"), steps().Draw(t, "m")
		require.Equal(t, c.Add(n+m), c.Add(n).Add(m))
		require.Equal(t, c.Sub(n+m), c.Sub(n).Sub(m))
	})
	check(t, "any number of steps ends on a clock", func(t *rapid.T) {
		c, n := clocks().Draw(t, "c"), rapid.Uint64().Draw(t, "n")
		require.True(t, c.Add(n).Valid())
		require.True(t, c.Sub(n).Valid())
		require.Equal(t, c.Add(n%positions), c.Add(n))
		require.Equal(t, c.Sub(n%positions), c.Sub(n))
	})
}

func TestDistanceLaws(t *testing.T) {
	t.Parallel()
	check(t, "Distance counts what Add added", func(t *rapid.T) {
		c, n := clocks().Draw(t, "c"), steps().Draw(t, "n")
		require.Equal(t, n, clock.Distance(c, c.Add(n)))
	})
	check(t, "Add goes the Distance", func(t *rapid.T) {
		from, to := clocks().Draw(t, "from"), clocks().Draw(t, "to")
		require.Equal(t, to, from.Add(clock.Distance(from, to)))
	})
	check(t, "there and back is the whole ring", func(t *rapid.T) {
		from, to := clocks().Draw(t, "from"), clocks().Draw(t, "to")
		if from == to {
			require.Zero(t, clock.Distance(from, to))
			return
		}
		require.Equal(t, positions, clock.Distance(from, to)+clock.Distance(to, from))
	})
}

func TestOrderLaws(t *testing.T) {
	t.Parallel()
	check(t, "Between is decided by the way from mark", func(t *rapid.T) {
		mark, n, m := clocks().Draw(t, "mark"), steps().Draw(t, "n"), steps().Draw(t, "m")
		require.Equal(t, 0 < n && n <= m, clock.Between(mark, mark.Add(n), mark.Add(m)))
	})
	check(t, "a clock is in one part of the ring", func(t *rapid.T) {
		mark, c, last := clocks().Draw(t, "mark"), clocks().Draw(t, "c"), clocks().Draw(t, "last")
		if mark == last {
			require.False(t, clock.Between(mark, c, last))
			return
		}
		require.NotEqual(t, clock.Between(mark, c, last), clock.Between(last, c, mark))
	})
	check(t, "of two clocks one is behind", func(t *rapid.T) {
		a, b := clocks().Draw(t, "a"), clocks().Draw(t, "b")
		if a == b {
			require.True(t, clock.Behind(a, b))
			return
		}
		require.NotEqual(t, clock.Behind(a, b), clock.Behind(b, a))
	})
	check(t, "Behind reaches over half of the ring", func(t *rapid.T) {
		mark, n := clocks().Draw(t, "mark"), steps().Draw(t, "n")
		require.Equal(t, n <= uint64(clock.Max), clock.Behind(mark.Sub(n), mark))
	})
}

func TestAfterLaws(t *testing.T) {
	t.Parallel()
	check(t, "After yields Distance many in order", func(t *rapid.T) {
		mark, n := clocks().Draw(t, "mark"), rapid.Uint64Range(0, 40).Draw(t, "n")
		limit := rapid.IntRange(-2, 50).Draw(t, "max")
		last := mark.Add(n)

		got := slices.Collect(clock.After(mark, last, limit))
		require.Len(t, got, min(int(n), max(limit, 0)))
		for i, c := range got {
			require.Equal(t, mark.Add(uint64(i)+1), c)
			require.True(t, clock.Between(mark, c, last))
		}
	})
	check(t, "a long way is cut at max", func(t *rapid.T) {
		mark, last := clocks().Draw(t, "mark"), clocks().Draw(t, "last")
		got := slices.Collect(clock.After(mark, last, 7))
		require.Equal(t, min(7, clock.Distance(mark, last)), uint64(len(got)))
	})
	t.Run("the caller may stop early and start again", func(t *testing.T) {
		t.Parallel()
		seq := clock.After(clock.Max, 10, 100)
		for range 2 {
			for c := range seq {
				require.Equal(t, clock.Min, c)
				break
			}
		}
	})
}

// TestClockOverflowOfTheSourceDocument is the example that ends the document on
// the channel layer's Redis internals.
func TestClockOverflowOfTheSourceDocument(t *testing.T) {
	t.Parallel()
	const (
		subscriber clock.Clock = 1<<53 - 3
		channel    clock.Clock = -(1<<53 - 1) + 1
	)
	unread := []clock.Clock{1<<53 - 2, 1<<53 - 1, -(1<<53 - 1), -(1<<53 - 1) + 1}

	require.Equal(t, unread, slices.Collect(clock.After(subscriber, channel, 100)))
	require.Equal(t, uint64(4), clock.Distance(subscriber, channel))
	for _, c := range unread {
		require.True(t, clock.Between(subscriber, c, channel), "%d", c)
		require.True(t, clock.Behind(subscriber, c), "%d", c)
		require.False(t, clock.Behind(c, subscriber), "%d", c)
	}
	for _, c := range []clock.Clock{subscriber, subscriber - 1, channel + 1, 0} {
		require.False(t, clock.Between(subscriber, c, channel), "%d", c)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	require.Equal(t, clock.Clock(9007199254740991), clock.Max)
	require.Equal(t, clock.Clock(-9007199254740991), clock.Min)
	require.Equal(t, uint64(1<<54-1), positions)
	require.Equal(t, clock.Min, clock.Max.Next())
	require.Equal(t, clock.Clock(1), clock.Clock(0).Next())
	require.Equal(t, positions-1, clock.Distance(clock.Min, clock.Max))
	require.Equal(t, uint64(1), clock.Distance(clock.Max, clock.Min))
	for _, c := range edges {
		require.True(t, c.Valid(), "%d", c)
	}
	require.False(t, (clock.Max + 1).Valid())
	require.False(t, (clock.Min - 1).Valid())
}
