// Package metrics counts what is sent on a connection to Redis, and what goes wrong.

package redis

import "github.com/prometheus/client_golang/prometheus"

// connMetrics counts. Its zero value counts nothing. It may be used by several goroutines.
type connMetrics struct {
	scripts       *prometheus.CounterVec
	retries       *prometheus.CounterVec
	failures      *prometheus.CounterVec
	interruptions prometheus.Counter
	largeWaiting  prometheus.Gauge
	largeBytes    prometheus.Gauge
}

// newConnMetrics registers the metrics; without r nothing is counted.
func newConnMetrics(r prometheus.Registerer) (connMetrics, error) {
	if r == nil {
		return connMetrics{}, nil
	}
	m := connMetrics{
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
		largeWaiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_redis_large_fetches_waiting",
			Help: "Large fetches that wait for their share of the bytes under way from Redis.",
		}),
		largeBytes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_redis_large_fetch_bytes",
			Help: "Bytes that large fetches may have under way from Redis now.",
		}),
	}
	for _, c := range []prometheus.Collector{m.scripts, m.retries, m.failures, m.interruptions, m.largeWaiting,
		m.largeBytes} {
		if err := r.Register(c); err != nil {
			return connMetrics{}, err
		}
	}
	return m, nil
}

// Sent counts calls of a script.
func (m connMetrics) Sent(script string, calls int) {
	if m.scripts != nil {
		m.scripts.WithLabelValues(script).Add(float64(calls))
	}
}

// Retried counts an operation that is tried again after an error with the code.
func (m connMetrics) Retried(code string) {
	if m.retries != nil {
		m.retries.WithLabelValues(code).Inc()
	}
}

// Failed counts an operation that is given up after an error with the code.
func (m connMetrics) Failed(code string) {
	if m.failures != nil {
		m.failures.WithLabelValues(code).Inc()
	}
}

// Resubscribed counts a subscription that ended and is made again.
func (m connMetrics) Resubscribed() {
	if m.interruptions != nil {
		m.interruptions.Inc()
	}
}

// ReadWaits counts a large read as waiting until over is called.
func (m connMetrics) ReadWaits() (over func()) {
	if m.largeWaiting == nil {
		return func() {}
	}
	m.largeWaiting.Inc()
	return m.largeWaiting.Dec
}

// ReadBytes changes the number of bytes of large reads in transit.
func (m connMetrics) ReadBytes(change int64) {
	if m.largeBytes != nil {
		m.largeBytes.Add(float64(change))
	}
}
