package function

import (
	"slices"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Pass reports whether a ticket passes all filters of a pool, as in Open Match:
//   - Each DoubleRange contains the ticket's number. It never contains NaN or a number that the ticket lacks.
//   - Each StringEquals equals the ticket's string, which must exist.
//   - Each TagPresent is among the ticket's tags.
//   - The ticket was created before CreatedBefore and after CreatedAfter, not at those times.
//
// A pool without filters passes every ticket. Several goroutines may call Pass.
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

// inRange reports whether a range contains a value. All comparisons with NaN are false.
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
