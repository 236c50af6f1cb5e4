package function

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// entry is a waiting ticket, prepared for matching. There can be many, so they share their data with the ticket if
// possible.
type entry struct {
	ticket *matchmaking.Ticket
	serial uint64 // unique among all entries of the Matcher, ever
	group  *group
	stats  []matchmaking.Statistic // by name, each name once, none NaN
	spans  []matchmaking.Criterion // by name, then ascending, widened, without overlaps; those of a name are a requirement
	wake   time.Duration           // from the ticket's creation to the next widening; 0: there is none

	widened int32 // widenings included in the spans; -1: the spans aren't computed yet
	found   int32 // upper bound of the number of candidates in the index, without causes
	home    int32 // first span of the requirement by which the index finds it; -1: there is none
	indexed bool  // in the group's index; else among the fresh entries
	removed bool  // it has left the matcher; its group may still refer to it
	newcome bool  // it is part of the current intake and was not searched yet
}

// requirement is a ticket's requirement for one statistic of others: one of these spans, which have the same name,
// contains it.
type requirement []matchmaking.Criterion

func newEntry(t *matchmaking.Ticket, serial uint64) *entry {
	e := &entry{ticket: t, serial: serial, widened: -1, home: -1, stats: t.Statistics}
	if !inOrder(t.Statistics) {
		e.stats = nil
		for _, s := range t.Statistics {
			e.setStat(s)
		}
	}
	return e
}

// inOrder reports whether statistics are as an entry has them.
func inOrder(stats []matchmaking.Statistic) bool {
	for i, s := range stats {
		if math.IsNaN(s.Value) || i > 0 && stats[i-1].Name >= s.Name {
			return false
		}
	}
	return true
}

func (e *entry) setStat(s matchmaking.Statistic) {
	i, ok := slices.BinarySearchFunc(e.stats, s.Name, compareStat)
	switch {
	case ok && math.IsNaN(s.Value):
		e.stats = slices.Delete(e.stats, i, i+1)
	case ok:
		e.stats[i] = s
	case !math.IsNaN(s.Value):
		e.stats = slices.Insert(e.stats, i, s)
	}
}

// widen computes the spans at a time, and when they will grow next.
func (e *entry) widen(r *rules, now time.Time) {
	step := r.step(now.Sub(e.ticket.CreateTime))
	if step == int(e.widened) {
		return
	}
	e.widened = int32(step)
	e.spans = spansOf(e.ticket.Criteria, r.widths[step])
	e.wake, _ = r.next(step, e.ticket.Criteria)
}

// wakes returns when the spans will grow next; it is only valid if wake is set.
func (e *entry) wakes() time.Time { return e.ticket.CreateTime.Add(e.wake) }

// spansOf returns criteria as the spans of an entry, widened. These are the criteria themselves if they have that form.
func spansOf(criteria []matchmaking.Criterion, widths map[string]float64) []matchmaking.Criterion {
	if len(widths) == 0 && areSpans(criteria) {
		return criteria
	}
	all := make([]matchmaking.Criterion, len(criteria))
	for i, c := range criteria {
		by := widths[c.Name]
		all[i] = matchmaking.Criterion{Name: c.Name, MinValue: c.MinValue - by, MaxValue: c.MaxValue + by}
		if !(all[i].MinValue <= all[i].MaxValue) { // also if one is NaN: nothing satisfies the requirement by it
			all[i].MinValue, all[i].MaxValue = math.Inf(1), math.Inf(-1)
		}
	}
	slices.SortFunc(all, func(a, b matchmaking.Criterion) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.MinValue, b.MinValue),
			cmp.Compare(b.MaxValue, a.MaxValue))
	})
	merged := all[:0]
	for _, s := range all {
		last := len(merged) - 1
		switch {
		case last < 0 || merged[last].Name != s.Name || isSpan(s) && s.MinValue > merged[last].MaxValue:
			merged = append(merged, s)
		case isSpan(s):
			merged[last].MaxValue = max(merged[last].MaxValue, s.MaxValue)
		}
	}
	return merged
}

// areSpans reports whether criteria are as an entry has its spans: each name once, in order, and no range that contains
// nothing.
func areSpans(criteria []matchmaking.Criterion) bool {
	for i, c := range criteria {
		if !isSpan(c) || i > 0 && criteria[i-1].Name >= c.Name {
			return false
		}
	}
	return true
}

// isSpan reports whether a range contains a number. A requirement with a range that doesn't has no other range.
func isSpan(c matchmaking.Criterion) bool { return c.MinValue <= c.MaxValue }

// requirement returns the requirement whose first span is at a place, and the place of the next one.
func (e *entry) requirement(at int) (r requirement, next int) {
	for next = at + 1; next < len(e.spans) && e.spans[next].Name == e.spans[at].Name; next++ {
	}
	return e.spans[at:next], next
}

func compareStat(s matchmaking.Statistic, name string) int { return cmp.Compare(s.Name, name) }

// value returns a statistic.
func (e *entry) value(name string) (float64, bool) {
	i, ok := slices.BinarySearchFunc(e.stats, name, compareStat)
	if !ok {
		return 0, false
	}
	return e.stats[i].Value, true
}

// accepts reports whether another entry's statistics satisfy all requirements.
func (e *entry) accepts(other *entry) bool {
	for at := 0; at < len(e.spans); {
		var r requirement
		r, at = e.requirement(at)
		value, ok := other.value(r[0].Name)
		if !ok || !r.contains(value) {
			return false
		}
	}
	return true
}

func (r requirement) contains(value float64) bool {
	return slices.ContainsFunc(r, func(c matchmaking.Criterion) bool {
		return c.MinValue <= value &&
			value <= c.MaxValue
	})
}

// compareAge orders the older entry first.
func compareAge(a, b *entry) int { return matchmaking.CompareAge(a.ticket, b.ticket) }
