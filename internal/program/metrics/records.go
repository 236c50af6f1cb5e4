package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/locks"
	"github.com/tidemark-dev/tidemark/internal/records/sessions"
)

// Records is a records.CacheMetrics, a sessions.Metrics, and a locks.Metrics.
type Records struct {
	cache, checks, locks *prometheus.CounterVec
}

var (
	_ records.CacheMetrics = (*Records)(nil)
	_ sessions.Metrics     = (*Records)(nil)
	_ locks.Metrics        = (*Records)(nil)
)

// NewRecords returns metrics that are registered.
func NewRecords(r prometheus.Registerer) (*Records, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &Records{
		cache: counter("tidemark_cache_events_total", "What happened to values of the cache, by their kind.", "kind",
			"event"),
		checks: counter("tidemark_session_checks_total", "Checks of sessions that asked Redis, by their outcome.",
			"outcome"),
		locks: counter("tidemark_locks_total", "Calls for locks, by their outcome.", "outcome"),
	}
	for _, o := range []sessions.Outcome{sessions.Valid, sessions.Unknown, sessions.Failed} {
		m.checks.WithLabelValues(string(o))
	}
	for _, o := range []locks.Outcome{locks.Acquired, locks.Held, locks.Lost} {
		m.locks.WithLabelValues(string(o))
	}
	return m, errors.Join(r.Register(m.cache), r.Register(m.checks), r.Register(m.locks))
}

// Count implements records.CacheMetrics.
func (m *Records) Count(kind *records.Kind, e records.CacheEvent) {
	m.cache.WithLabelValues(kind.Name, string(e)).Inc()
}

// Check implements sessions.Metrics.
func (m *Records) Check(o sessions.Outcome) { m.checks.WithLabelValues(string(o)).Inc() }

// Lock implements locks.Metrics.
func (m *Records) Lock(o locks.Outcome) { m.locks.WithLabelValues(string(o)).Inc() }
