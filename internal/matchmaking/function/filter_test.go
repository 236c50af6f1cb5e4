package function_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

func TestPassRanges(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	cases := []struct {
		name           string
		min, max       float64
		value          float64
		none, low      bool // with NONE, and with MIN excluded
		high, both     bool // with MAX, and with BOTH excluded
		withoutTheArgs bool
	}{
		{name: "inside", min: 1, max: 3, value: 2, none: true, low: true, high: true, both: true},
		{name: "at the lower end", min: 1, max: 3, value: 1, none: true, high: true},
		{name: "at the upper end", min: 1, max: 3, value: 3, none: true, low: true},
		{name: "below", min: 1, max: 3, value: 0.9},
		{name: "above", min: 1, max: 3, value: 3.1},
		{name: "a range of one value", min: 1, max: 1, value: 1, none: true},
		{name: "a range the wrong way round", min: 3, max: 1, value: 2},
		{name: "NaN", min: -inf, max: inf, value: nan},
		{name: "from NaN", min: nan, max: 3, value: 2},
		{name: "to NaN", min: 1, max: nan, value: 2},
		{name: "NaN in NaN", min: nan, max: nan, value: nan},
		{name: "infinite", min: 0, max: inf, value: inf, none: true, low: true},
		{name: "minus nothing", min: 0, max: 1, value: math.Copysign(0, -1), none: true, high: true},
		{name: "without the number", min: -inf, max: inf, withoutTheArgs: true},
	}
	for _, c := range cases {
		player := ticket("a", 0)
		if !c.withoutTheArgs {
			player.SearchFields.DoubleArgs = matchmaking.Doubles{"skill": c.value}
		}
		for exclude, want := range map[matchmaking.Exclude]bool{
			"": c.none, matchmaking.ExcludeNone: c.none, matchmaking.ExcludeMin: c.low,
			matchmaking.ExcludeMax: c.high, matchmaking.ExcludeBoth: c.both, "SOME": false,
		} {
			pool := matchmaking.Pool{DoubleRanges: []matchmaking.DoubleRange{
				{DoubleArg: "skill", Min: c.min, Max: c.max, Exclude: exclude},
			}}
			require.Equal(t, want, function.Pass(pool, player), "%s, excluding %q", c.name, exclude)
		}
	}
}

func TestPass(t *testing.T) {
	t.Parallel()
	player := ticket("a", 10)
	player.SearchFields = matchmaking.SearchFields{
		Tags:       []string{"beta", "eu"},
		DoubleArgs: matchmaking.Doubles{"skill": 5},
		StringArgs: map[string]string{"mode": "duel", "clan": ""},
	}
	texts := func(all ...matchmaking.StringEquals) matchmaking.Pool { return matchmaking.Pool{StringEquals: all} }
	tags := func(all ...string) (pool matchmaking.Pool) {
		for _, tag := range all {
			pool.TagsPresent = append(pool.TagsPresent, matchmaking.TagPresent{Tag: tag})
		}
		return pool
	}
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	skill := []matchmaking.DoubleRange{{DoubleArg: "skill", Min: 0, Max: 9}}
	cases := []struct {
		name string
		pool matchmaking.Pool
		want bool
	}{
		{"no filters", matchmaking.Pool{}, true},
		{"the text", texts(matchmaking.StringEquals{StringArg: "mode", Value: "duel"}), true},
		{"another text", texts(matchmaking.StringEquals{StringArg: "mode", Value: "Duel"}), false},
		{"an empty text", texts(matchmaking.StringEquals{StringArg: "clan"}), true},
		{"an empty text that isn't there", texts(matchmaking.StringEquals{StringArg: "guild"}), false},
		{"one of two texts", texts(matchmaking.StringEquals{StringArg: "mode", Value: "duel"},
			matchmaking.StringEquals{StringArg: "clan", Value: "x"}), false},
		{"a tag", tags("eu"), true},
		{"all tags", tags("eu", "beta"), true},
		{"a tag too many", tags("eu", "us"), false},
		{"created before", matchmaking.Pool{CreatedBefore: at(11)}, true},
		{"created then, not before", matchmaking.Pool{CreatedBefore: at(10)}, false},
		{"created after", matchmaking.Pool{CreatedAfter: at(9)}, true},
		{"created then, not after", matchmaking.Pool{CreatedAfter: at(10)}, false},
		{"created between", matchmaking.Pool{CreatedAfter: at(9), CreatedBefore: at(11)}, true},
		{"all kinds", matchmaking.Pool{DoubleRanges: skill, TagsPresent: tags("eu").TagsPresent, CreatedAfter: at(9)},
			true},
		{"all kinds but one", matchmaking.Pool{DoubleRanges: skill, TagsPresent: tags("us").TagsPresent}, false},
		{"two ranges",
			matchmaking.Pool{DoubleRanges: append(skill, matchmaking.DoubleRange{DoubleArg: "skill", Max: 4})}, false},
	}
	for _, c := range cases {
		require.Equal(t, c.want, function.Pass(c.pool, player), c.name)
	}
}
