package shardmetrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/shard"
)

// Node is a shard.NodeObserver.
type Node struct {
	requests, loads             *prometheus.CounterVec
	keys, claims                prometheus.Counter
	took                        prometheus.Histogram
	loading, incarnation, shard prometheus.Gauge
}

var _ shard.NodeObserver = (*Node)(nil)

// Outcomes of requests.
const (
	ping       = "ping"
	matched    = "matched"
	notMatched = "not-matched"
	otherCache = "other-cache"
	undecoded  = "undecodable"
	failed     = "failed"
)

// NewNode returns the metrics of a node, which are registered. ready is the node's.
func NewNode(r prometheus.Registerer, of shard.Member, ready func() error) (*Node, error) {
	labels := prometheus.Labels{"cache": of.Cache, "dc": of.DC}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}
	}
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}
	}
	n := &Node{
		requests: prometheus.NewCounterVec(counter("tidemark_shard_node_requests_total", "Requests of clients, by their outcome."), []string{"outcome"}),
		keys:     prometheus.NewCounter(counter("tidemark_shard_node_keys_total", "Keys that were asked for.")),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidemark_shard_node_request_seconds", Help: "Time to answer a request with keys.", ConstLabels: labels,
			Buckets: append([]float64{.00001, .000025, .00005}, seconds...),
		}),
		claims:      prometheus.NewCounter(counter("tidemark_shard_node_claims_total", "Shards that the node has claimed, the same one again included.")),
		loads:       prometheus.NewCounterVec(counter("tidemark_shard_node_loads_total", "Times that the node has loaded its shard, or failed to."), []string{"outcome"}),
		loading:     prometheus.NewGauge(gauge("tidemark_shard_node_load_seconds", "How long the last load took.")),
		shard:       prometheus.NewGauge(gauge("tidemark_shard_node_shard", "Number of the shard that the node claimed last; -1: none yet.")),
		incarnation: prometheus.NewGauge(gauge("tidemark_shard_node_incarnation", "Incarnation of that claim: it rises with each holder of the shard in the data centre.")),
	}
	n.shard.Set(-1)
	for _, outcome := range []string{ping, matched, notMatched, otherCache, undecoded, failed} {
		n.requests.WithLabelValues(outcome)
	}
	for _, outcome := range []string{"loaded", failed} {
		n.loads.WithLabelValues(outcome)
	}
	serving := prometheus.NewGaugeFunc(gauge("tidemark_shard_node_serving", "1 if the node answers for a shard, which it has loaded and holds."), func() float64 {
		if ready() != nil {
			return 0
		}
		return 1
	})
	return n, errors.Join(r.Register(n.requests), r.Register(n.keys), r.Register(n.took), r.Register(n.claims), r.Register(n.loads),
		r.Register(n.loading), r.Register(n.shard), r.Register(n.incarnation), r.Register(serving))
}

// Answered implements shard.NodeObserver.
func (n *Node) Answered(keys int, all bool, took time.Duration, err error) {
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
func (n *Node) Claimed(c shard.Claimed) {
	n.claims.Inc()
	n.shard.Set(float64(c.Shard))
	n.incarnation.Set(float64(c.Incarnation))
}

// Loaded implements shard.NodeObserver.
func (n *Node) Loaded(took time.Duration, err error) {
	if err != nil {
		n.loads.WithLabelValues(failed).Inc()
		return
	}
	n.loads.WithLabelValues("loaded").Inc()
	n.loading.Set(took.Seconds())
}

// Stopped implements shard.NodeObserver. What it reports is in tidemark_shard_node_serving.
func (*Node) Stopped(error) {}
