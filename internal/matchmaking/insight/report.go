package insight

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/function"
)

// Bounds of a report.
const (
	MaxLongest    = 20 // tickets of Report.Longest
	MaxStatistics = 5  // of Report.Statistics
	MaxRanges     = 5  // of a statistic
	maxNameBytes  = 128
)

// Report describes the longest waiting tickets of a queue and the reasons.
type Report struct {
	Waiting    int // tickets in the queue
	Examined   int // of those, the oldest: the subject of the rest of the report
	Waits      Waits
	Statistics []Statistic // those used by the most criteria, by name
	Longest    []Ticket    // the longest waiting ones, in descending order
}

// Statistic describes the tickets with a statistic, in ranges of about equal numbers of tickets.
type Statistic struct {
	Name   string
	Ranges []Range // ascending; tickets with the same value are in the same range
}

// Range describes the tickets whose statistic is in a range, both ends included.
type Range struct {
	Min, Max float64
	Tickets  int
	Waits    Waits
}

// Ticket is a waiting ticket.
type Ticket struct {
	ID         string
	Wait       time.Duration
	Players    int
	Acceptance *matchmaking.AcceptanceCounts // among the examined tickets; nil: the match function isn't a built-in one
}

// Examine makes a report of a queue's waiting tickets, the oldest first. Its only error is that of ctx.
func Examine(ctx context.Context, m matchmaking.Match, c function.Crowd) (Report, error) {
	r := Report{Examined: len(c.Tickets)}
	waits := make([]time.Duration, len(c.Tickets))
	for i, t := range c.Tickets {
		waits[i] = waitOf(t, c.Now)
	}
	r.Waits = PercentilesOf(waits)
	for _, name := range namesOf(c.Tickets) {
		r.Statistics = append(r.Statistics, Statistic{Name: name, Ranges: rangesOf(name, c)})
	}
	acceptances, err := function.Acceptances(ctx, m, c, MaxLongest)
	if err != nil {
		return Report{}, err
	}
	for i, t := range c.Tickets[:min(MaxLongest, len(c.Tickets))] {
		longest := Ticket{ID: t.ID, Wait: waitOf(t, c.Now), Players: t.Party()}
		if acceptances != nil {
			longest.Acceptance = &acceptances[i]
		}
		r.Longest = append(r.Longest, longest)
	}
	return r, nil
}

// waitOf returns the waiting time of a ticket, which may have been created after now.
func waitOf(t *matchmaking.Ticket, now time.Time) time.Duration { return max(0, now.Sub(t.CreateTime)) }

// namesOf returns the names that occur in the criteria of the most tickets, in order.
func namesOf(tickets []*matchmaking.Ticket) []string {
	count := make(map[string]int)
	last := make(map[string]*matchmaking.Ticket) // the last counted ticket, so that each counts once
	for _, t := range tickets {
		for _, c := range t.Criteria {
			if len(c.Name) <= maxNameBytes && last[c.Name] != t {
				last[c.Name] = t
				count[c.Name]++
			}
		}
	}
	names := make([]string, 0, len(count))
	for name := range count {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	names = names[:min(MaxStatistics, len(names))]
	slices.Sort(names)
	return names
}

// measured is a ticket's statistic and wait.
type measured struct {
	value float64
	wait  time.Duration
}

func rangesOf(name string, c function.Crowd) []Range {
	var all []measured
	for _, t := range c.Tickets {
		if value, ok := valueOf(t, name); ok {
			all = append(all, measured{value, waitOf(t, c.Now)})
		}
	}
	slices.SortFunc(all, func(a, b measured) int { return cmp.Compare(a.value, b.value) })
	var ranges []Range
	at := 0
	for i := range MaxRanges {
		end := len(all) * (i + 1) / MaxRanges
		if end <= at {
			continue
		}
		for end < len(all) && all[end].value == all[end-1].value {
			end++
		}
		ranges = append(ranges, rangeOf(all[at:end]))
		at = end
	}
	return ranges
}

func rangeOf(tickets []measured) Range {
	waits := make([]time.Duration, len(tickets))
	for i, m := range tickets {
		waits[i] = m.wait
	}
	return Range{Min: tickets[0].value, Max: tickets[len(tickets)-1].value, Tickets: len(tickets),
		Waits: PercentilesOf(waits)}
}

// valueOf returns a ticket's statistic, if it is a finite number: the last one with the name.
func valueOf(t *matchmaking.Ticket, name string) (value float64, ok bool) {
	for _, s := range slices.Backward(t.Statistics) {
		if s.Name == name {
			return s.Value, !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0)
		}
	}
	return 0, false
}

// Percentiles are percentiles of values, by nearest rank.
type Percentiles[T cmp.Ordered] struct {
	P50, P90, P99, Max T
}

// Waits are percentiles of the waiting times of tickets.
type Waits = Percentiles[time.Duration]

// PercentilesOf returns the percentiles of the values, by nearest rank, and sorts the values. Without values all are 0.
func PercentilesOf[T cmp.Ordered](values []T) (p Percentiles[T]) {
	if len(values) == 0 {
		return p
	}
	slices.Sort(values)
	at := func(percent int) T { return values[(len(values)*percent+99)/100-1] }
	return Percentiles[T]{P50: at(50), P90: at(90), P99: at(99), Max: values[len(values)-1]}
}
