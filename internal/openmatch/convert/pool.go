package convert

import (
	"fmt"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// MaxFilters is how many filters a pool of a query may have: every waiting ticket is compared with each.
const MaxFilters = 1000

// ToPool returns a pool. It fails for more than MaxFilters, an unknown exclusion and an invalid time.
func ToPool(p *openmatch.Pool) (matchmaking.Pool, error) {
	pool := matchmaking.Pool{Name: p.GetName()}
	filters := len(p.GetDoubleRangeFilters()) + len(p.GetStringEqualsFilters()) + len(p.GetTagPresentFilters())
	if filters > MaxFilters {
		return matchmaking.Pool{}, invalid("pool", "%d filters, at most %d are allowed", filters, MaxFilters)
	}
	for i, f := range p.GetDoubleRangeFilters() {
		exclude, ok := toExclude[f.GetExclude()]
		if !ok {
			return matchmaking.Pool{}, invalid(fmt.Sprintf("double_range_filters[%d].exclude", i), "unknown value %d",
				f.GetExclude())
		}
		pool.DoubleRanges = append(pool.DoubleRanges, matchmaking.DoubleRange{
			DoubleArg: f.GetDoubleArg(), Min: f.GetMin(), Max: f.GetMax(), Exclude: exclude,
		})
	}
	for _, f := range p.GetStringEqualsFilters() {
		pool.StringEquals = append(pool.StringEquals, matchmaking.StringEquals{StringArg: f.GetStringArg(),
			Value: f.GetValue()})
	}
	for _, f := range p.GetTagPresentFilters() {
		pool.TagsPresent = append(pool.TagsPresent, matchmaking.TagPresent{Tag: f.GetTag()})
	}
	var err error
	if pool.CreatedBefore, err = toTime("created_before", p.GetCreatedBefore()); err != nil {
		return matchmaking.Pool{}, err
	}
	pool.CreatedAfter, err = toTime("created_after", p.GetCreatedAfter())
	return pool, err
}

// FromPool returns a pool as a message.
func FromPool(p matchmaking.Pool) *openmatch.Pool {
	m := &openmatch.Pool{Name: p.Name, CreatedBefore: fromTime(p.CreatedBefore), CreatedAfter: fromTime(p.CreatedAfter)}
	for _, f := range p.DoubleRanges {
		m.DoubleRangeFilters = append(m.DoubleRangeFilters, &openmatch.DoubleRangeFilter{
			DoubleArg: f.DoubleArg, Min: f.Min, Max: f.Max, Exclude: fromExclude[f.Exclude],
		})
	}
	for _, f := range p.StringEquals {
		m.StringEqualsFilters = append(m.StringEqualsFilters, &openmatch.StringEqualsFilter{StringArg: f.StringArg,
			Value: f.Value})
	}
	for _, f := range p.TagsPresent {
		m.TagPresentFilters = append(m.TagPresentFilters, &openmatch.TagPresentFilter{Tag: f.Tag})
	}
	return m
}

// FromProfile returns a profile as a message.
func FromProfile(p matchmaking.Profile) *openmatch.MatchProfile {
	m := &openmatch.MatchProfile{Name: p.Name}
	for _, pool := range p.Pools {
		m.Pools = append(m.Pools, FromPool(pool))
	}
	return m
}

var toExclude = map[openmatch.DoubleRangeFilter_Exclude]matchmaking.Exclude{
	openmatch.DoubleRangeFilter_NONE: matchmaking.ExcludeNone, openmatch.DoubleRangeFilter_MIN: matchmaking.ExcludeMin,
	openmatch.DoubleRangeFilter_MAX: matchmaking.ExcludeMax, openmatch.DoubleRangeFilter_BOTH: matchmaking.ExcludeBoth,
}

// fromExclude has no entry for the empty exclusion, which is NONE.
var fromExclude = map[matchmaking.Exclude]openmatch.DoubleRangeFilter_Exclude{
	matchmaking.ExcludeNone: openmatch.DoubleRangeFilter_NONE, matchmaking.ExcludeMin: openmatch.DoubleRangeFilter_MIN,
	matchmaking.ExcludeMax: openmatch.DoubleRangeFilter_MAX, matchmaking.ExcludeBoth: openmatch.DoubleRangeFilter_BOTH,
}
