package function

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// entry is a waiting ticket, prepared for matching.
type entry struct {
	ticket  *matchmaking.Ticket
	serial  uint64 // unique among all entries of the Matcher, ever
	group   *group
	stats   []matchmaking.Statistic // by name, each name once, none NaN
	wishes  []wish                  // by name
	widened int                     // widenings included in the wishes' spans; -1: the spans aren't computed yet
	wake    time.Time               // of the next widening; zero: there is none
	home    int                     // the wish by which the index finds it; -1: there is none
	indexed bool                    // in the group's index; else among the fresh entries
	gone    bool                    // removed

	search
}

// search is what is known of an entry's candidates.
type search struct {
	found    int      // upper bound of the number of candidates in the index, without causes
	newcomer bool     // it is part of the current intake and was not searched yet
	causes   []*entry // newcomers of the current intake that are its candidates
}

// wish is what a ticket requires of one statistic of others.
type wish struct {
	name   string
	ranges []span // as in the ticket
	spans  []span // widened, ascending, without overlaps
}

// span is a range that includes both ends.
type span struct {
	low, high float64
}

func (s span) contains(value float64) bool { return s.low <= value && value <= s.high }

func newEntry(t *matchmaking.Ticket, serial uint64) *entry {
	e := &entry{ticket: t, serial: serial, widened: -1, home: -1}
	for _, s := range t.Statistics {
		e.setStat(s)
	}
	for _, c := range t.Criteria {
		i, ok := slices.BinarySearchFunc(e.wishes, c.Name, wish.compare)
		if !ok {
			e.wishes = slices.Insert(e.wishes, i, wish{name: c.Name})
		}
		e.wishes[i].ranges = append(e.wishes[i].ranges, span{low: c.MinValue, high: c.MaxValue})
	}
	return e
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
	if step == e.widened {
		return
	}
	e.widened = step
	for i := range e.wishes {
		e.wishes[i].widen(r.widths[step][e.wishes[i].name])
	}
	e.wake = time.Time{}
	if after, ok := r.next(step, e.wishes); ok {
		e.wake = e.ticket.CreateTime.Add(after)
	}
}

func (w *wish) widen(by float64) {
	w.spans = w.spans[:0]
	for _, r := range w.ranges {
		// A range with a NaN end contains nothing.
		if s := (span{low: r.low - by, high: r.high + by}); s.low <= s.high {
			w.spans = append(w.spans, s)
		}
	}
	slices.SortFunc(w.spans, func(a, b span) int { return cmp.Compare(a.low, b.low) })
	merged := w.spans[:0]
	for _, s := range w.spans {
		if last := len(merged) - 1; last >= 0 && s.low <= merged[last].high {
			merged[last].high = max(merged[last].high, s.high)
		} else {
			merged = append(merged, s)
		}
	}
	w.spans = merged
}

func (w wish) compare(name string) int { return cmp.Compare(w.name, name) }

func compareStat(s matchmaking.Statistic, name string) int { return cmp.Compare(s.Name, name) }

// value returns a statistic.
func (e *entry) value(name string) (float64, bool) {
	i, ok := slices.BinarySearchFunc(e.stats, name, compareStat)
	if !ok {
		return 0, false
	}
	return e.stats[i].Value, true
}

// accepts reports whether another entry's statistics satisfy all wishes.
func (e *entry) accepts(other *entry) bool {
	for i := range e.wishes {
		value, ok := other.value(e.wishes[i].name)
		if !ok || !e.wishes[i].contains(value) {
			return false
		}
	}
	return true
}

func (w *wish) contains(value float64) bool {
	for _, s := range w.spans {
		if s.contains(value) {
			return true
		}
	}
	return false
}

// compareAge orders the older entry first.
func compareAge(a, b *entry) int { return older(a.ticket, b.ticket) }

// live removes the causes that no longer wait, and returns the others.
func (e *entry) live() []*entry {
	e.causes = slices.DeleteFunc(e.causes, func(x *entry) bool { return x.gone })
	return e.causes
}
