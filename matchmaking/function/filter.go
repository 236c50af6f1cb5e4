package function

import (
	"slices"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Pass tells whether a ticket passes all filters of a pool, as in Open Match: a number must be in its range, without
// the ends that are excluded; NaN never is, and neither is a number that the ticket doesn't have; a text must be the
// same, and be there; a tag must be there; the ticket must have been created before CreatedBefore and after
// CreatedAfter, not at them. A pool without filters passes every ticket. It may be called by many goroutines.
func Pass(pool matchmaking.Pool, t *matchmaking.Ticket) bool {
	if !pool.CreatedBefore.IsZero() && !t.CreateTime.Before(pool.CreatedBefore) {
		return false
	}
	if !pool.CreatedAfter.IsZero() && !t.CreateTime.After(pool.CreatedAfter) {
		return false
	}
	for _, f := range pool.DoubleRanges {
		if value, ok := t.SearchFields.DoubleArgs[f.DoubleArg]; !ok || !inRange(f, value) {
			return false
		}
	}
	for _, f := range pool.StringEquals {
		if value, ok := t.SearchFields.StringArgs[f.StringArg]; !ok || value != f.Value {
			return false
		}
	}
	for _, f := range pool.TagsPresent {
		if !slices.Contains(t.SearchFields.Tags, f.Tag) {
			return false
		}
	}
	return true
}

// inRange is false for NaN, which all comparisons are.
func inRange(f matchmaking.DoubleRange, value float64) bool {
	switch f.Exclude {
	case "", matchmaking.ExcludeNone:
		return f.Min <= value && value <= f.Max
	case matchmaking.ExcludeMin:
		return f.Min < value && value <= f.Max
	case matchmaking.ExcludeMax:
		return f.Min <= value && value < f.Max
	case matchmaking.ExcludeBoth:
		return f.Min < value && value < f.Max
	default:
		return false
	}
}
