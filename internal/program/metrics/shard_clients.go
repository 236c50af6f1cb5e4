package metrics

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/histogram"
	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
)

// ShardClients has the metrics of the clients of a process, one for each cache.
type ShardClients struct {
	answers          *prometheus.HistogramVec
	failures, late   *prometheus.CounterVec
	noShard, changes *prometheus.CounterVec
	reads            *prometheus.CounterVec
	hosts, assigned  *prometheus.GaugeVec
	centres          names
}

// seconds are the buckets of calls of nodes, which take a fraction of a millisecond in a data centre.
var seconds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}

// NewShardClients returns metrics that are registered.
func NewShardClients(r prometheus.Registerer) (*ShardClients, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append([]string{"cache"}, labels...))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"cache"})
	}
	m := &ShardClients{
		answers: prometheus.NewHistogramVec(histogram.Options("tidemark_shard_client_answer_seconds",
			"Time from a Get to the first answer for some of its keys, by the data centre that gave it.", seconds),
			[]string{"cache", "dc"}),
		failures: counter("tidemark_shard_client_failures_total",
			"Calls of nodes without a usable answer, by the reason.", "dc", "reason"),
		late: counter("tidemark_shard_client_late_answers_total", "Answers that nobody needed any more.", "dc"),
		noShard: counter("tidemark_shard_client_keys_without_shard_total",
			"Keys that no node had when they were asked for."),
		changes: counter("tidemark_shard_client_map_changes_total",
			"Changes of what the client knows of who has which shard."),
		reads: counter("tidemark_shard_reads_total",
			"Values of the cache that were to be read through nodes, by their outcome.", "outcome"),
		hosts:    gauge("tidemark_shard_client_hosts", "Nodes that the client knows."),
		assigned: gauge("tidemark_shard_client_hosts_with_shard", "Nodes that the client knows to have a shard."),
	}
	return m, errors.Join(r.Register(m.answers), r.Register(m.failures), r.Register(m.late), r.Register(m.noShard),
		r.Register(m.changes),
		r.Register(m.reads), r.Register(m.hosts), r.Register(m.assigned))
}

// Of returns the observer for the client of a cache.
func (m *ShardClients) Of(cache string) *ShardClient {
	for _, o := range tier.Outcomes {
		m.reads.WithLabelValues(cache, string(o))
	}
	return &ShardClient{
		of: m, cache: cache, noShard: m.noShard.WithLabelValues(cache), changes: m.changes.WithLabelValues(cache),
		hosts: m.hosts.WithLabelValues(cache), assigned: m.assigned.WithLabelValues(cache),
	}
}

// Count implements tier.ReadMetrics.
func (m *ShardClients) Count(kind *records.Kind, o tier.Outcome, n int) {
	m.reads.WithLabelValues(kind.Name, string(o)).Add(float64(n))
}

// ShardClient is a shard.Observer.
type ShardClient struct {
	of               *ShardClients
	cache            string
	noShard, changes prometheus.Counter
	hosts, assigned  prometheus.Gauge
}

var _ shard.Observer = (*ShardClient)(nil)

// First implements shard.Observer.
func (c *ShardClient) First(h shard.Host, took time.Duration) {
	c.of.answers.WithLabelValues(c.cache, c.of.centres.bounded(h.DC)).Observe(took.Seconds())
}

// Failed implements shard.Observer.
func (c *ShardClient) Failed(h shard.Host, err error) {
	c.of.failures.WithLabelValues(c.cache, c.of.centres.bounded(h.DC), reason(err)).Inc()
}

// Late implements shard.Observer.
func (c *ShardClient) Late(h shard.Host) {
	c.of.late.WithLabelValues(c.cache, c.of.centres.bounded(h.DC)).Inc()
}

// NoShard implements shard.Observer.
func (c *ShardClient) NoShard(keys int) { c.noShard.Add(float64(keys)) }

// Changed implements shard.Observer.
func (c *ShardClient) Changed(hosts, assigned int) {
	c.changes.Inc()
	c.hosts.Set(float64(hosts))
	c.assigned.Set(float64(assigned))
}

// reason returns why a call failed, as a label.
func reason(err error) string {
	for _, row := range []struct {
		err  error
		name string
	}{
		{shard.ErrNotMatched, "not-matched"}, {shard.ErrTimeout, "timeout"}, {shard.ErrUnavailable, "unavailable"},
		{shard.ErrBadAnswer, "bad-answer"}, {shard.ErrOtherCache, "other-cache"}, {shard.ErrUndecodable, "undecodable"},
	} {
		if errors.Is(err, row.err) {
			return row.name
		}
	}
	return "other"
}

// maxNames is how many data centres have labels of their own.
const maxNames = 32

// names bounds the values of a label. Its zero value is ready.
type names struct {
	mu    sync.RWMutex
	known map[string]struct{}
}

// bounded returns a name, or "other" if there are too many.
func (n *names) bounded(name string) string {
	if name == "" {
		return "unknown"
	}
	n.mu.RLock()
	_, ok := n.known[name]
	n.mu.RUnlock()
	if ok {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.known) >= maxNames {
		return "other"
	}
	if n.known == nil {
		n.known = make(map[string]struct{})
	}
	n.known[name] = struct{}{}
	return name
}
