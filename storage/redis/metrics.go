package redis

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what goes wrong between the store and Redis. Its zero value counts nothing.
type metrics struct {
	retries       *prometheus.CounterVec
	failures      *prometheus.CounterVec
	interruptions prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (metrics, error) {
	if r == nil {
		return metrics{}, nil
	}
	m := metrics{
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
	}
	for _, c := range []prometheus.Collector{m.retries, m.failures, m.interruptions} {
		if err := r.Register(c); err != nil {
			return metrics{}, err
		}
	}
	return m, nil
}

func (m metrics) retried(code string) {
	if m.retries != nil {
		m.retries.WithLabelValues(code).Inc()
	}
}

func (m metrics) failed(code string) {
	if m.failures != nil {
		m.failures.WithLabelValues(code).Inc()
	}
}

func (m metrics) resubscribed() {
	if m.interruptions != nil {
		m.interruptions.Inc()
	}
}
