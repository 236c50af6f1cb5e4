package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/histogram"
	"github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
)

// ShardNode is a shard.NodeObserver.
type ShardNode struct {
	labels                      prometheus.Labels
	requests, loads             *prometheus.CounterVec
	keys, claims                prometheus.Counter
	took                        prometheus.Histogram
	loading, incarnation, shard prometheus.Gauge
}

var _ shard.NodeObserver = (*ShardNode)(nil)

// Outcomes of requests.
const (
	ping       = "ping"
	matched    = "matched"
	notMatched = "not-matched"
	otherCache = "other-cache"
	undecoded  = "undecodable"
	failed     = "failed"
)

// NewShardNode returns the metrics of a node.
func NewShardNode(of shard.Member) *ShardNode {
	labels := prometheus.Labels{"cache": of.Cache, "dc": of.DC}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	}
	took := histogram.Options("tidemark_shard_node_request_seconds", "Time to answer a request with keys.",
		append([]float64{.00001, .000025, .00005}, seconds...))
	took.ConstLabels = labels
	n := &ShardNode{
		labels: labels,
		requests: prometheus.NewCounterVec(counter("tidemark_shard_node_requests_total",
			"Requests of clients, by their outcome."), []string{"outcome"}),
		keys: prometheus.NewCounter(counter("tidemark_shard_node_keys_total", "Keys that were asked for.")),
		took: prometheus.NewHistogram(took),
		claims: prometheus.NewCounter(counter("tidemark_shard_node_claims_total",
			"Shards that the node has claimed, the same one again included.")),
		loads: prometheus.NewCounterVec(counter("tidemark_shard_node_loads_total",
			"Times that the node has loaded its shard, or failed to."), []string{"outcome"}),
		loading: gauge("tidemark_shard_node_load_seconds", "How long the last load took."),
		shard: gauge("tidemark_shard_node_shard",
			"Number of the shard that the node claimed last; -1: none yet."),
		incarnation: gauge("tidemark_shard_node_incarnation",
			"Incarnation of that claim: it rises with each holder of the shard in the data centre."),
	}
	n.shard.Set(-1)
	for _, outcome := range []string{ping, matched, notMatched, otherCache, undecoded, failed} {
		n.requests.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"loaded", failed} {
		n.loads.WithLabelValues(outcome)
	}
	return n
}

// Register registers the metrics. ready is the node's Ready, and stats returns the state of its source.
func (n *ShardNode) Register(r prometheus.Registerer, ready func() error, stats func() tier.Stats) error {
	all := []prometheus.Collector{n.requests, n.keys, n.took, n.claims, n.loads, n.loading, n.shard, n.incarnation}
	for _, gauge := range []struct {
		name, help string
		value      func() float64
	}{
		{"serving", "1 if the node answers for a shard, which it has loaded and holds.", func() float64 {
			if ready() != nil {
				return 0
			}
			return 1
		}},
		{"entries", "Values in memory.", func() float64 { return float64(stats().Entries) }},
		{"entry_bytes", "Bytes of them and their IDs.", func() float64 { return float64(stats().Bytes) }},
		{"entries_left_out", "Values that didn't fit into the memory since the last load, and are read from Redis.",
			func() float64 { return float64(stats().LeftOut) }},
		{"behind_seconds", "For how long the oldest announced change waits to be applied.",
			func() float64 { return stats().Behind.Seconds() }},
	} {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_shard_node_" + gauge.name, Help: gauge.help, ConstLabels: n.labels,
		}, gauge.value))
	}
	var err error
	for _, collector := range all {
		err = errors.Join(err, r.Register(collector))
	}
	return err
}

// Answered implements shard.NodeObserver.
func (n *ShardNode) Answered(keys int, all bool, took time.Duration, err error) {
	outcome := failed
	switch {
	case errors.Is(err, shard.ErrOtherCache):
		outcome = otherCache
	case errors.Is(err, shard.ErrUndecodable):
		outcome = undecoded
	case err != nil:
	case keys == 0:
		outcome = ping
	case all:
		outcome = matched
	default:
		outcome = notMatched
	}
	n.requests.WithLabelValues(outcome).Inc()
	if keys > 0 {
		n.keys.Add(float64(keys))
		n.took.Observe(took.Seconds())
	}
}

// Claimed implements shard.NodeObserver.
func (n *ShardNode) Claimed(c shard.Claimed) {
	n.claims.Inc()
	n.shard.Set(float64(c.Shard))
	n.incarnation.Set(float64(c.Incarnation))
}

// Loaded implements shard.NodeObserver.
func (n *ShardNode) Loaded(took time.Duration, err error) {
	if err != nil {
		n.loads.WithLabelValues(failed).Inc()
		return
	}
	n.loads.WithLabelValues("loaded").Inc()
	n.loading.Set(took.Seconds())
}

// Stopped implements shard.NodeObserver. What it reports is in tidemark_shard_node_serving.
func (*ShardNode) Stopped(error) {}
