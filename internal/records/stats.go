package records

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
)

// Bounds of statistics.
const (
	MaxStatsFields = 64              // of a window
	RepeatFor      = time.Hour       // how long an addition with an ID of the caller's can be repeated
	retryFor       = 2 * time.Minute // the same without an ID, for repeats by the storage only
)

// Timeframe divides time into windows, in UTC.
type Timeframe struct {
	Name   string
	Length time.Duration // of a window
	Offset time.Duration // of the first window's start from the beginning of 1970
	Keep   time.Duration // how long a window is kept after its start
}

// The timeframes. Weeks begin on Mondays.
var (
	Hourly = Timeframe{Name: "hourly", Length: time.Hour, Keep: 7 * day}
	Daily  = Timeframe{Name: "daily", Length: day, Keep: 30 * day}
	Weekly = Timeframe{Name: "weekly", Length: 7 * day, Offset: 4 * day, Keep: 30 * day}
)

// Start returns the start of the window that contains a time.
func (f Timeframe) Start(at time.Time) time.Time {
	length, since := int64(f.Length/time.Second), at.Unix()-int64(f.Offset/time.Second)
	return time.Unix(at.Unix()-(since%length+length)%length, 0).UTC()
}

// Windows returns the starts of the windows from one time to another, as far as they are kept now, the oldest first. A
// zero time is now.
func (f Timeframe) Windows(from, to, now time.Time) (starts []time.Time) {
	if from.IsZero() {
		from = now
	}
	if to.IsZero() || to.After(now) {
		to = now
	}
	start, kept := f.Start(from), now.Add(-f.Keep)
	if from.Before(kept) {
		start = f.Start(kept)
	}
	for ; !start.After(to); start = start.Add(f.Length) {
		if start.After(kept) {
			starts = append(starts, start)
		}
	}
	return starts
}

// Timeframes are all timeframes. It must not be changed.
var Timeframes = []Timeframe{Hourly, Daily, Weekly}

// timeframe returns the timeframe with a name.
func timeframe(name string) (Timeframe, error) {
	for _, f := range Timeframes {
		if f.Name == name {
			return f, nil
		}
	}
	return Timeframe{}, invalid(fault.SlugInvalidTimeframe, "timeframe", "%q is none of hourly, daily, weekly", name)
}

// Series is the counters of a name: one for each window, or, if it has fields, one for each window and field.
type Series struct {
	Name      string
	Timeframe Timeframe
	Fields    bool // stats rather than a metric
}

// StatsWindow is the counters of a window.
type StatsWindow struct {
	Start  time.Time
	Values map[string]int64 // by field; "" is that of a metric
}

// StatsChange is a change of a series in the present window.
type StatsChange struct {
	Series
	Values map[string]int64
	Set    bool          // set the counters to the values, rather than add these
	ID     string        // names an addition
	Repeat time.Duration // how long an addition with the ID counts as the same
}

// StatsStore keeps statistics. Several goroutines may call it at the same time.
type StatsStore interface {
	// Change changes counters, all or none, and returns them. Errors: ErrCounterRange, ErrManyFields.
	Change(ctx context.Context, c StatsChange) (StatsWindow, error)
	// Range returns the windows of a series from one time to another that have values, the oldest first. The zero time
	// is now.
	Range(ctx context.Context, s Series, from, to time.Time) ([]StatsWindow, error)
}

// Stats are statistics in a store. Several goroutines may call its methods at the same time.
type Stats struct {
	store StatsStore
	names StatsNames
}

// NewStats returns the statistics with some names in a store.
func NewStats(s StatsStore, n StatsNames) *Stats { return &Stats{s, n} }

// MetricOf returns the series of a metric, and StatsOf that of the statistics of an entity. Errors: invalid-id,
// invalid-timeframe.
func MetricOf(name, period string) (Series, error) { return seriesOf("name", name, period, false) }

// StatsOf is explained at MetricOf.
func StatsOf(entity, period string) (Series, error) {
	return seriesOf("entity", entity, period, true)
}

func seriesOf(field, name, period string, fields bool) (Series, error) {
	if err := CheckID(field, name); err != nil {
		return Series{}, err
	}
	f, err := timeframe(period)
	return Series{Name: name, Timeframe: f, Fields: fields}, err
}

// Add adds amounts, which may be negative, to counters of the present window, and returns those. If it is repeated with
// an ID within RepeatFor, nothing is added again; without an ID each call adds. Errors: invalid-id, invalid-amount,
// ErrNoEntity, ErrNoMetric, ErrCounterRange, ErrManyFields.
func (s *Stats) Add(ctx context.Context, of Series, amounts map[string]int64, unique string) (StatsWindow, error) {
	c := StatsChange{Series: of, Values: amounts, ID: unique, Repeat: RepeatFor}
	if unique == "" {
		c.ID, c.Repeat = id.New(), retryFor
	} else if err := CheckID("id", unique); err != nil {
		return StatsWindow{}, err
	}
	return s.change(ctx, c)
}

// Set sets counters of the present window, and returns them. Errors: as Add.
func (s *Stats) Set(ctx context.Context, of Series, values map[string]int64) (StatsWindow, error) {
	return s.change(ctx, StatsChange{Series: of, Values: values, Set: true})
}

func (s *Stats) change(ctx context.Context, c StatsChange) (StatsWindow, error) {
	switch {
	case len(c.Values) == 0:
		return StatsWindow{}, invalid(fault.SlugInvalidAmount, "fields", "there is nothing to change")
	case len(c.Values) > MaxStatsFields:
		return StatsWindow{}, ErrManyFields
	}
	if err := s.names.check(c.Series, c.Values); err != nil {
		return StatsWindow{}, err
	}
	for field, value := range c.Values {
		if c.Fields {
			if err := CheckID("fields", field); err != nil {
				return StatsWindow{}, err
			}
		}
		if value < -MaxCounter || value > MaxCounter {
			return StatsWindow{}, invalid(fault.SlugInvalidAmount, "fields", "%d is beyond 2^53-1", value)
		}
	}
	return s.store.Change(ctx, c)
}

// Range returns the windows of a series that have values, from the one that contains a time to the one that contains
// another, the oldest first. A zero time is now. Windows beyond the timeframe's retention are left out. Errors:
// invalid-query, ErrNoEntity, ErrNoMetric.
func (s *Stats) Range(ctx context.Context, of Series, from, to time.Time) ([]StatsWindow, error) {
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return nil, invalid(fault.SlugInvalidQuery, "to", "to is before from")
	}
	if err := s.names.check(of, nil); err != nil {
		return nil, err
	}
	return s.store.Range(ctx, of, from, to)
}
