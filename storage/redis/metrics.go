package redis

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/storage/redis/internal/refusal"
)

// metrics counts the calls and the errors of a Conn. Its zero value counts nothing. Many goroutines may use it.
type metrics struct {
	scripts       *prometheus.CounterVec
	sentScripts   *sync.Map // the counters of scripts, by name: looking one up in scripts takes longer
	retries       *prometheus.CounterVec
	failures      *prometheus.CounterVec
	interruptions prometheus.Counter
	moves         prometheus.Counter
	changes       *prometheus.CounterVec // of the primary
	lostSince     prometheus.Gauge       // 0 before the first loss
	lostUntil     prometheus.Gauge
	largeWaiting  prometheus.Gauge
	largeBytes    prometheus.Gauge
}

// alerted are the codes of failures and retries that are counted from 0 on, so that alerts see the first one.
var alerted = []string{codeNetwork, refusal.ReadOnly, refusal.NoPermission, refusal.OutOfMemory, "MISCONF",
	"NOREPLICAS"}

// newMetrics registers the metrics. If r is nil they count nothing.
func newMetrics(r prometheus.Registerer) (metrics, error) {
	if r == nil {
		return metrics{}, nil
	}
	m := metrics{
		sentScripts: new(sync.Map),
		scripts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_redis_scripts_total",
			Help: "Calls of scripts, by the script.",
		}, []string{"script"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_redis_retries_total",
			Help: "Operations tried again, by the code of the error before.",
		}, []string{"code"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_redis_failures_total",
			Help: "Operations given up, by the code of the last error.",
		}, []string{"code"}),
		interruptions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_redis_listen_interruptions_total",
			Help: "Subscriptions to a channel's notifications that ended and were made again.",
		}),
		moves: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_redis_moves_total",
			Help: "Times that Redis was a replica, its address had a primary, and all connections were made again.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_redis_failovers_total",
			Help: "Changes of a primary that this server noticed, by whether the former one had writes that are lost.",
		}, []string{"writes"}),
		lostSince: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_redis_lost_since_timestamp_seconds",
			Help: "When the writes began that the last failover with a loss has lost, to within a second.",
		}),
		lostUntil: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_redis_lost_until_timestamp_seconds",
			Help: "When this server noticed the last failover with a loss.",
		}),
		largeWaiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_redis_large_fetches_waiting",
			Help: "Large fetches that wait for their share of the bytes under way from Redis.",
		}),
		largeBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_redis_large_fetch_bytes",
			Help: "Bytes that large fetches may have under way from Redis now.",
		}),
	}
	for _, code := range alerted {
		m.failures.WithLabelValues(code)
		m.retries.WithLabelValues(code)
	}
	for _, writes := range []string{writesKept, writesLost} {
		m.changes.WithLabelValues(writes)
	}
	for _, c := range []prometheus.Collector{m.scripts, m.retries, m.failures, m.interruptions, m.moves, m.changes,
		m.lostSince, m.lostUntil, m.largeWaiting, m.largeBytes} {
		if err := r.Register(c); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

// sent counts calls of a script.
func (m metrics) sent(script string, calls int) {
	if m.scripts == nil {
		return
	}
	counter, ok := m.sentScripts.Load(script)
	if !ok {
		counter, _ = m.sentScripts.LoadOrStore(script, m.scripts.WithLabelValues(script))
	}
	counter.(prometheus.Counter).Add(float64(calls)) //nolint:forcetypeassert // it has only counters
}

// retried counts an operation that is tried again after an error with the code.
func (m metrics) retried(code string) {
	if m.retries != nil {
		m.retries.WithLabelValues(code).Inc()
	}
}

// failed counts an operation that is given up after an error with the code.
func (m metrics) failed(code string) {
	if m.failures != nil {
		m.failures.WithLabelValues(code).Inc()
	}
}

// resubscribed counts a subscription that ended and is made again.
func (m metrics) resubscribed() {
	if m.interruptions != nil {
		m.interruptions.Inc()
	}
}

// moved counts that all connections are made again to another server.
func (m metrics) moved() {
	if m.moves != nil {
		m.moves.Inc()
	}
}

// The values of the label writes.
const (
	writesKept = "kept"
	writesLost = "lost"
)

// failedOver counts a change of a primary.
func (m metrics) failedOver(f Failover) {
	switch {
	case m.changes == nil:
	case f.Lost:
		m.changes.WithLabelValues(writesLost).Inc()
		m.lostSince.Set(float64(f.LostSince.Unix()))
		m.lostUntil.Set(float64(f.At.Unix()))
	default:
		m.changes.WithLabelValues(writesKept).Inc()
	}
}

// readWaits counts a large read as waiting until over is called.
func (m metrics) readWaits() (over func()) {
	if m.largeWaiting == nil {
		return func() {}
	}
	m.largeWaiting.Inc()
	return m.largeWaiting.Dec
}

// readBytes changes the number of bytes of large reads in transit.
func (m metrics) readBytes(change int64) {
	if m.largeBytes != nil {
		m.largeBytes.Add(float64(change))
	}
}
