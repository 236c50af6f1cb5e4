package records

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/lua"
)

// The scripts of statistics.
var (
	changeScript = lua.Must("records/change_stats")
	rangeScript  = lua.Must("records/range_stats")
)

// statusOther is the status of a change whose window isn't the current one.
const statusOther redis.Status = "OTHER"

// seriesKey returns the key of a series, or that of one of its windows.
func (s *Counters) seriesKey(of records.Series, window ...time.Time) string {
	kind, name := records.MetricKind, of.Timeframe.Name
	if of.Fields {
		kind = records.StatsKind
	}
	for _, start := range window {
		name += ":" + number(start.Unix())
	}
	return key(s.conn, kind, of.Name, name)
}

// addedKey returns the key that marks an addition.
func (s *Counters) addedKey(of records.Series, id string) string {
	kind := records.MetricKind
	if of.Fields {
		kind = records.StatsKind
	}
	return key(s.conn, records.AddedKind, of.Name, kind.Name+"."+of.Timeframe.Name, id)
}

// atNow calls a function with an estimate of Redis's time. If the difference to the actual time matters, the function
// changes nothing and returns Redis's time, and is called again with it.
func (s *Counters) atNow(call func(now time.Time) (other time.Time, err error)) error {
	now := s.now()
	for range 3 {
		other, err := call(now)
		if err != nil || other.IsZero() {
			return err
		}
		now = other
	}
	return fault.ErrUnavailable.WithCause(errors.New("redis's clock moves"))
}

// Change implements records.StatsStore. The script refuses a window that isn't the current one by Redis's clock, and
// is run again.
func (s *Counters) Change(ctx context.Context, c records.StatsChange) (window records.StatsWindow, err error) {
	fields := slices.Sorted(maps.Keys(c.Values))
	change := "add"
	if c.Set {
		change = "set"
	}
	var changes []string
	for _, field := range fields {
		changes = append(changes, field, strconv.FormatInt(c.Values[field], 10))
	}
	err = s.atNow(func(now time.Time) (other time.Time, err error) {
		window = records.StatsWindow{Start: c.Timeframe.Start(now), Values: map[string]int64{}}
		keys := []string{s.seriesKey(c.Series), s.seriesKey(c.Series, window.Start), s.addedKey(c.Series, c.ID)}
		args := []string{
			number(window.Start.Unix()), whole(c.Timeframe.Length), whole(c.Timeframe.Keep), seriesKind(c.Series), change,
			redis.Milliseconds(c.Repeat), number(records.MaxCounter), strconv.Itoa(records.MaxStatsFields),
		}
		reply, err := s.conn.Run(ctx, changeScript, keys, append(args, changes...))
		if err != nil {
			return other, fmt.Errorf("change statistics: %w", err)
		}
		return changed(reply, fields, window.Values)
	})
	return window, err
}

// changed decodes the reply of change_stats.lua.
func changed(reply redis.Reply, fields []string, values map[string]int64) (other time.Time, err error) {
	d := reply.Decoder()
	switch reply.Status {
	case redis.OK:
		for _, field := range fields {
			values[field] = d.Int64()
		}
	case statusOther:
		other = time.Unix(d.Int64(), 0)
	default:
		return other, counterRefusals.Error(reply)
	}
	return other, d.End()
}

// seriesKind returns the scripts' argument for the kind of a series.
func seriesKind(s records.Series) string {
	if s.Fields {
		return "fields"
	}
	return "metric"
}

// Range implements records.StatsStore. Windows up to now are read again if they are others by Redis's clock.
func (s *Counters) Range(ctx context.Context, of records.Series, from, to time.Time) (windows []records.StatsWindow,
	err error) {
	err = s.atNow(func(now time.Time) (other time.Time, err error) {
		starts := of.Timeframe.Windows(from, to, now)
		keys := make([]string, len(starts))
		for i, start := range starts {
			keys[i] = s.seriesKey(of, start)
		}
		if len(keys) == 0 {
			return other, nil // so old windows aren't kept
		}
		reply, err := s.conn.Run(ctx, rangeScript, keys, []string{seriesKind(of)})
		if err != nil {
			return other, fmt.Errorf("read statistics: %w", err)
		}
		if reply.Status != redis.OK {
			return other, counterRefusals.Error(reply)
		}
		d := reply.Decoder()
		if read := time.Unix(d.Int64(), 0); !slices.Equal(starts, of.Timeframe.Windows(from, to, read)) {
			return read, d.Err()
		}
		windows, err = windowsOf(d, starts)
		return other, err
	})
	return windows, err
}

// windowsOf decodes the windows that have values.
func windowsOf(d *redis.Decoder, starts []time.Time) (windows []records.StatsWindow, err error) {
	for _, start := range starts {
		w := records.StatsWindow{Start: start, Values: map[string]int64{}}
		d.Each(func(field *redis.Decoder) { w.Values[field.Text()] = field.Int64() })
		if len(w.Values) > 0 {
			windows = append(windows, w)
		}
	}
	return windows, d.End()
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func whole(d time.Duration) string { return number(int64(d / time.Second)) }
