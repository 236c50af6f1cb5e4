package lua_test

import (
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// clockCalls runs functions of clocks.lua on triples of numbers, each as `name, a, b, c` in ARGV.
const clockCalls = `
local calls = {
  show = function(a) return clocks.show(a) end,
  add = function(a, b) return clocks.show(clocks.add(a, b)) end,
  sub = function(a, b) return clocks.show(clocks.sub(a, b)) end,
  distance = function(a, b) return clocks.show(clocks.distance(a, b)) end,
  between = function(a, b, c) return tostring(clocks.between(a, b, c)) end,
  behind = function(a, b) return tostring(clocks.behind(a, b)) end,
}
local results = {}
for i = 1, #ARGV, 4 do
  results[#results + 1] = calls[ARGV[i]](tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]))
end
return results
`

// luaCall is one call of clocks.lua, and Go's result for it.
type luaCall struct {
	name string
	args [3]int64
	want string
}

// luaClock runs calls on a real Redis, all in one script.
type luaClock struct {
	source string
	node   *redistest.Node
}

func newLuaClock(t *testing.T) luaClock {
	t.Helper()
	text, err := fs.ReadFile(lua.Files(), "channels/lib/clocks.lua")
	require.NoError(t, err)
	return luaClock{source: string(text) + clockCalls, node: redistest.Standalone(t)}
}

// run returns the result of each call as text.
func (l luaClock) run(t *testing.T, calls []luaCall) []string {
	t.Helper()
	args := []string{"EVAL", l.source, "0"}
	for _, c := range calls {
		args = append(args, c.name)
		for _, n := range c.args {
			args = append(args, strconv.FormatInt(n, 10))
		}
	}
	results, err := l.node.Do(t, args...).AsStrSlice()
	require.NoError(t, err)
	require.Len(t, results, len(calls))
	return results
}

// check runs calls and compares their results.
func (l luaClock) check(t *testing.T, fail require.TestingT, calls []luaCall) {
	t.Helper()
	for i, got := range l.run(t, calls) {
		require.Equal(fail, calls[i].want, got, "%s%v", calls[i].name, calls[i].args)
	}
}

// clockEdges are where Lua's number formatting, the sign or the wrap change something.
var clockEdges = []clock.Clock{0, 1e14, -1e14, clock.Max - 1, clock.Max, clock.Min, clock.Min + 1}

// luaClocks draws any clock, most often one at most a few steps from an edge.
func luaClocks() *rapid.Generator[clock.Clock] {
	near := rapid.Custom(func(t *rapid.T) clock.Clock {
		return rapid.SampledFrom(clockEdges).Draw(t, "edge").Add(rapid.Uint64Range(0, 3).Draw(t, "after")).
			Sub(rapid.Uint64Range(0, 3).Draw(t, "before"))
	})
	return rapid.OneOf(near, near, rapid.Custom(func(t *rapid.T) clock.Clock {
		return clock.Clock(rapid.Int64Range(int64(clock.Min), int64(clock.Max)).Draw(t, "clock"))
	}))
}

// luaSteps draws a number of steps for add and sub.
func luaSteps() *rapid.Generator[int64] {
	return rapid.OneOf(
		rapid.Int64Range(0, 5),
		rapid.Int64Range(int64(clock.Max)-5, int64(clock.Max)),
		rapid.Int64Range(1e14-3, 1e14+3),
		rapid.Int64Range(0, int64(clock.Max)),
	)
}

// checkClocks draws many calls at once, since a script is quicker than its round trip.
func checkClocks(t *testing.T, name string, draw func(*rapid.T) luaCall) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		l := newLuaClock(t)
		calls := rapid.SliceOfN(rapid.Custom(draw), 1, 300)
		rapid.Check(t, func(r *rapid.T) { l.check(t, r, calls.Draw(r, "calls")) })
	})
}

func TestLuaClockLaws(t *testing.T) {
	t.Parallel()
	checkClocks(t, "add", func(t *rapid.T) luaCall {
		c, n := luaClocks().Draw(t, "c"), luaSteps().Draw(t, "n")
		return luaCall{"add", [3]int64{int64(c), n}, c.Add(uint64(n)).String()}
	})
	checkClocks(t, "sub", func(t *rapid.T) luaCall {
		c, n := luaClocks().Draw(t, "c"), luaSteps().Draw(t, "n")
		return luaCall{"sub", [3]int64{int64(c), n}, c.Sub(uint64(n)).String()}
	})
	checkClocks(t, "show", func(t *rapid.T) luaCall {
		c := luaClocks().Draw(t, "c")
		return luaCall{"show", [3]int64{int64(c)}, c.String()}
	})
	checkClocks(t, "between", func(t *rapid.T) luaCall {
		mark, c, last := luaClocks().Draw(t, "mark"), luaClocks().Draw(t, "c"), luaClocks().Draw(t, "last")
		return luaCall{"between", [3]int64{int64(mark), int64(c), int64(last)}, strconv.FormatBool(clock.Between(mark, c, last))}
	})
	checkClocks(t, "behind", func(t *rapid.T) luaCall {
		c, mark := pair(t)
		return luaCall{"behind", [3]int64{int64(c), int64(mark)}, strconv.FormatBool(clock.Behind(c, mark))}
	})
	checkClocks(t, "distance up to 2^53", func(t *rapid.T) luaCall {
		from, n := luaClocks().Draw(t, "from"), rapid.OneOf(luaSteps(), rapid.Just[int64](1<<53)).Draw(t, "n")
		return luaCall{"distance", [3]int64{int64(from), int64(from.Add(uint64(n)))}, strconv.FormatInt(n, 10)}
	})
}

// pair draws two clocks, often about half of all clocks apart.
func pair(t *rapid.T) (a, b clock.Clock) {
	a = luaClocks().Draw(t, "a")
	if rapid.Bool().Draw(t, "free") {
		return a, luaClocks().Draw(t, "b")
	}
	return a, a.Add(uint64(clock.Max)).Add(rapid.Uint64Range(0, 4).Draw(t, "after")).Sub(2)
}

// TestLuaDistanceBeyondHalf holds that a distance which isn't exact is off by little, and is never taken for one of at
// most half of all clocks.
func TestLuaDistanceBeyondHalf(t *testing.T) {
	t.Parallel()
	l := newLuaClock(t)
	rapid.Check(t, func(r *rapid.T) {
		calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) luaCall {
			from, to := pair(t)
			return luaCall{name: "distance", args: [3]int64{int64(from), int64(to)}}
		}), 1, 300).Draw(r, "calls")
		for i, text := range l.run(t, calls) {
			got, err := strconv.ParseUint(text, 10, 64)
			require.NoError(r, err, "no exponent")
			from, to := calls[i].args[0], calls[i].args[1]
			want := clock.Distance(clock.Clock(from), clock.Clock(to))
			require.Equal(r, want <= uint64(clock.Max), got <= uint64(clock.Max), "distance(%d, %d) is %d, and Lua says %d", from, to, want, got)
			require.InDelta(r, float64(want), float64(got), 4, "distance(%d, %d)", from, to)
		}
	})
}

// TestLuaClockAtTheEdges runs all functions on all pairs of edges, without chance.
func TestLuaClockAtTheEdges(t *testing.T) {
	t.Parallel()
	var calls []luaCall
	for _, a := range clockEdges {
		calls = append(calls, luaCall{"show", [3]int64{int64(a)}, a.String()})
		for _, n := range []int64{0, 1, 2, 1e14, int64(clock.Max) - 1, int64(clock.Max)} {
			calls = append(calls,
				luaCall{"add", [3]int64{int64(a), n}, a.Add(uint64(n)).String()},
				luaCall{"sub", [3]int64{int64(a), n}, a.Sub(uint64(n)).String()})
		}
		for _, b := range clockEdges {
			calls = append(calls, luaCall{"behind", [3]int64{int64(a), int64(b)}, strconv.FormatBool(clock.Behind(a, b))})
			if d := clock.Distance(a, b); d <= 1<<53 {
				calls = append(calls, luaCall{"distance", [3]int64{int64(a), int64(b)}, strconv.FormatUint(d, 10)})
			}
			for _, c := range clockEdges {
				calls = append(calls, luaCall{
					"between", [3]int64{int64(a), int64(b), int64(c)}, strconv.FormatBool(clock.Between(a, b, c)),
				})
			}
		}
	}
	newLuaClock(t).check(t, t, calls)
}

// TestLuaClockOverflowOfTheSourceDocument is the example that ends the document on the channel layer's Redis
// internals.
func TestLuaClockOverflowOfTheSourceDocument(t *testing.T) {
	t.Parallel()
	const subscriber, channel = 1<<53 - 3, -(1<<53 - 1) + 1
	unread := []int64{1<<53 - 2, 1<<53 - 1, -(1<<53 - 1), -(1<<53 - 1) + 1}
	calls := []luaCall{{"distance", [3]int64{subscriber, channel}, "4"}, {"behind", [3]int64{subscriber, channel}, "true"}}
	for i, c := range unread {
		calls = append(calls,
			luaCall{"add", [3]int64{subscriber, int64(i) + 1}, strconv.FormatInt(c, 10)},
			luaCall{"between", [3]int64{subscriber, c, channel}, "true"})
	}
	for _, c := range []int64{subscriber, subscriber - 1, channel + 1, 0} {
		calls = append(calls, luaCall{"between", [3]int64{subscriber, c, channel}, "false"})
	}
	newLuaClock(t).check(t, t, calls)
}

// TestLuaNumbersNeedShow checks the assumptions of the scripts: Lua's own text for a large number has an exponent, and
// as a reply a number loses its fraction.
func TestLuaNumbersNeedShow(t *testing.T) {
	t.Parallel()
	l := newLuaClock(t)
	for expression, want := range map[string]string{
		"tostring(clocks.MAX)":        "9.007199254741e+15",
		"100000000000000 .. ''":       "1e+14",
		"clocks.show(clocks.MAX)":     "9007199254740991",
		"clocks.show(-clocks.MAX)":    "-9007199254740991",
		"clocks.show(clocks.MAX + 1)": "9007199254740992",
		"tostring(3.7)":               "3.7",
	} {
		got, err := l.node.Do(t, "EVAL", strings.TrimSuffix(l.source, clockCalls)+"return "+expression, "0").ToString()
		require.NoError(t, err)
		require.Equal(t, want, got, expression)
	}
	n, err := l.node.Do(t, "EVAL", "return 3.7", "0").AsInt64()
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}
