// Package recordmetrics shows what the services of records count as metrics. Start from [New].
package recordmetrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
)

// Metrics is a cache.Metrics.
type Metrics struct {
	cache *prometheus.CounterVec
}

var _ cache.Metrics = (*Metrics)(nil)

// New returns metrics that are registered.
func New(r prometheus.Registerer) (*Metrics, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Metrics{
		cache: counter("tidemark_cache_events_total", "What happened to values of the cache, by their kind.", "kind", "event"),
	}
	return m, errors.Join(r.Register(m.cache))
}

// Count implements cache.Metrics.
func (m *Metrics) Count(kind *records.Kind, e cache.Event) {
	m.cache.WithLabelValues(kind.Name, string(e)).Inc()
}
