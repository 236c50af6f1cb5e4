package overview

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// The bounds of a History: an hour of points, and so many queues and other labels, each with a few columns of 4 bytes a
// point: at most 1.6 MB, as BenchmarkHistory shows.
const (
	Interval      = 10 * time.Second
	historyPoints = 360
	historyQueues = 64
	historyCaches = 32
	historyCodes  = 32

	labelCode = "code"
)

// History keeps points of what the metrics of this server have counted and measured in the last hour. Any number of
// goroutines may use it; one calls Run.
type History struct {
	from    prometheus.Gatherer
	server  string
	started time.Time // has a monotonic clock, so that times rise

	mu                              sync.Mutex
	times                           [historyPoints]int64 // Unix milliseconds; point n is at n % historyPoints
	next                            int                  // number of points so far
	service                         *series
	queues, caches, codes, failures *group
	seen                            []func(Sample)
}

// Sample is the metrics at one time, by name.
type Sample struct {
	At       time.Time
	families map[string][]*dto.Metric
}

// NewHistory returns an empty history of the metrics of a server with an ID.
func NewHistory(from prometheus.Gatherer, server string) *History {
	return &History{
		from: from, server: server, started: time.Now(), service: newSeries(serviceColumns),
		queues:   newGroup(historyQueues, "queue", queueColumns),
		caches:   newGroup(historyCaches, "kind", cacheColumns),
		codes:    newGroup(historyCodes, labelCode, codeColumns),
		failures: newGroup(historyCodes, labelCode, redisColumns),
	}
}

// OnSample makes each sample call seen, on Run's goroutine. It must be called before Run.
func (h *History) OnSample(seen func(Sample)) { h.seen = append(h.seen, seen) }

// Run adds a point every Interval until ctx ends. It returns nil.
func (h *History) Run(ctx context.Context) error {
	h.Add(h.started)
	for n := 1; ; n++ {
		if !pace.Sleep(ctx, time.Until(h.started.Add(time.Duration(n)*Interval))) {
			return nil
		}
		h.Add(time.Now())
	}
}

// Add reads the metrics, and adds a point. The first call adds none: there is nothing to compare with.
func (h *History) Add(now time.Time) {
	families, err := h.from.Gather()
	if err != nil && len(families) == 0 {
		return // a collector that fails leaves out its own metrics only
	}
	s := Sample{At: now, families: make(map[string][]*dto.Metric, len(families))}
	for _, f := range families {
		s.families[f.GetName()] = f.GetMetric()
	}
	h.mu.Lock()
	h.add(s)
	h.mu.Unlock()
	for _, seen := range h.seen {
		seen(s)
	}
}

func (h *History) add(s Sample) {
	first := h.service.before == nil
	slot := h.next % historyPoints
	h.service.add(slot, s.all)
	for _, g := range []*group{h.queues, h.caches, h.codes, h.failures} {
		g.add(h.next, first, s)
	}
	if first {
		h.started = s.At
		return
	}
	h.times[slot] = h.started.UnixMilli() + s.At.Sub(h.started).Milliseconds()
	h.next++
}

// Since returns the points after a time in Unix milliseconds: of the whole server, or of one queue.
func (h *History) Since(since int64, queue string) wire.History {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := max(0, h.next-historyPoints)
	for first < h.next && h.times[first%historyPoints] <= since {
		first++
	}
	answer := wire.History{
		Server: h.server, StartedAt: h.started.UTC(), IntervalMillis: Interval.Milliseconds(), Through: since,
		Times: make([]int64, 0, h.next-first),
	}
	for n := first; n < h.next; n++ {
		answer.Times = append(answer.Times, h.times[n%historyPoints])
	}
	if n := len(answer.Times); n > 0 {
		answer.Through = answer.Times[n-1]
	}
	if queue != "" {
		answer.Columns = newSeries(queueColumns).columnsSince(first, h.next)
		if q := h.queues.all[queue]; q != nil {
			answer.Columns = q.columnsSince(first, h.next)
		}
		return answer
	}
	answer.Columns = h.service.columnsSince(first, h.next)
	answer.Caches = h.caches.columnsSince(first, h.next)
	answer.Errors = h.codes.columnsSince(first, h.next)
	answer.RedisFailures = h.failures.columnsSince(first, h.next)
	return answer
}

// Sum returns the sum of a queue's column over the last points.
func (h *History) Sum(queue, column string, points int) (sum float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q := h.queues.all[queue]; q != nil {
		sum = q.sum(column, h.next, points)
	}
	return sum
}

// SumErrors returns how many requests were answered with a code in the last points.
func (h *History) SumErrors(code string, points int) (sum float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c := h.codes.all[code]; c != nil {
		sum = c.sum("requests", h.next, points)
	}
	return sum
}

// SumService returns the sum of a column of the server over the last points.
func (h *History) SumService(column string, points int) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.service.sum(column, h.next, points)
}

// count returns the number of points so far.
func (h *History) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next
}

// all returns the metrics of a name.
func (s Sample) all(name string) []*dto.Metric { return s.families[name] }

// by returns the metrics of the columns by the value of a label, and then by their name.
func (s Sample) by(label string, columns []column) map[string]map[string][]*dto.Metric {
	found, done := map[string]map[string][]*dto.Metric{}, map[string]bool{}
	for _, c := range columns {
		if done[c.metric] {
			continue
		}
		done[c.metric] = true
		for _, m := range s.families[c.metric] {
			value := labelOf(m, label)
			if found[value] == nil {
				found[value] = map[string][]*dto.Metric{}
			}
			found[value][c.metric] = append(found[value][c.metric], m)
		}
	}
	return found
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// valueOf returns the value of a counter or a gauge.
func valueOf(m *dto.Metric) float64 {
	if m.GetCounter() != nil {
		return m.GetCounter().GetValue()
	}
	return m.GetGauge().GetValue()
}

// group is a series for each value of a label.
type group struct {
	limit   int
	label   string
	columns []column
	all     map[string]*series
	omitted map[string]float64 // what was counted for the values that have no series, since there are too many
}

func newGroup(limit int, label string, columns []column) *group {
	return &group{limit: limit, label: label, columns: columns, all: map[string]*series{}, omitted: map[string]float64{}}
}

// add adds point n. Beyond the limit, a value is left out until another one has had no event for an hour. Series of
// metrics that are gone are removed.
func (g *group) add(n int, first bool, s Sample) {
	found := s.by(g.label, g.columns)
	maps.DeleteFunc(g.omitted, func(value string, _ float64) bool { return found[value] == nil })
	idle := func(s *series) bool { return len(g.omitted) > 0 && n-s.active > historyPoints }
	for value, series := range g.all {
		if found[value] == nil || idle(series) {
			delete(g.all, value)
			if found[value] != nil {
				g.omitted[value] = total(found[value])
			}
		}
	}
	for value, metrics := range found {
		before, omitted := g.omitted[value]
		switch now := total(metrics); {
		case g.all[value] != nil || g.label == labelCode && value < "400": // codes of Redis are words
		case len(g.all) == g.limit || omitted && now == before:
			g.omitted[value] = now
		default:
			delete(g.omitted, value)
			series := newSeries(g.columns)
			series.active = n - historyPoints - 1 // idle
			if !first && !omitted {               // all that was counted is of this point
				series.before = make([][]float64, len(g.columns))
			}
			g.all[value] = series
		}
	}
	for value, series := range g.all {
		if series.add(n%historyPoints, func(name string) []*dto.Metric { return found[value][name] }) {
			series.active = n
		}
	}
}

// total returns the sum of all counters.
func total(metrics map[string][]*dto.Metric) (sum float64) {
	for _, all := range metrics {
		for _, m := range all {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

func (g *group) columnsSince(first, next int) map[string]wire.Columns {
	all := make(map[string]wire.Columns, len(g.all))
	for value, series := range g.all {
		if next-series.active <= historyPoints { // it has had an event in this hour
			all[value] = series.columnsSince(first, next)
		}
	}
	return all
}

// series is the points of some columns.
type series struct {
	columns []column
	points  [][historyPoints]float32 // by column
	before  [][]float64              // raw values of the point before, by column
	active  int                      // last point at which a counter has risen
}

func newSeries(columns []column) *series {
	s := &series{columns: columns, points: make([][historyPoints]float32, len(columns))}
	for c := range s.points {
		for i := range s.points[c] {
			s.points[c][i] = float32(math.NaN())
		}
	}
	return s
}

// add sets a point, and reports whether anything was counted. The first one has no counts.
func (s *series) add(slot int, metrics func(name string) []*dto.Metric) (active bool) {
	first := s.before == nil
	if first {
		s.before = make([][]float64, len(s.columns))
	}
	for i, c := range s.columns {
		raw := c.read(metrics(c.metric))
		value := math.NaN()
		if !first || c.kind == isGauge {
			value = c.value(raw, s.before[i])
		}
		s.points[i][slot], s.before[i] = float32(value), raw
		active = active || value > 0
	}
	return active
}

func (s *series) columnsSince(first, next int) wire.Columns {
	all := make(wire.Columns, len(s.columns))
	for i, c := range s.columns {
		values := make(wire.Column, 0, next-first)
		for n := first; n < next; n++ {
			values = append(values, s.points[i][n%historyPoints])
		}
		all[c.name] = values
	}
	return all
}

// sum returns the sum of a column over the last points.
func (s *series) sum(name string, next, points int) (sum float64) {
	i := slices.IndexFunc(s.columns, func(c column) bool { return c.name == name })
	for n := max(0, next-min(points, historyPoints)); n < next; n++ {
		if v := float64(s.points[i][n%historyPoints]); !math.IsNaN(v) {
			sum += v
		}
	}
	return sum
}
