package service_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
)

// measured returns metrics in a registry.
func measured(t *testing.T, r *prometheus.Registry) service.Metrics {
	t.Helper()
	m, err := metrics.NewQueues(r)
	require.NoError(t, err)
	return m
}

// values returns the values of a queue's metrics: values of counters and gauges, and numbers of samples.
func values(t *testing.T, r *prometheus.Registry, queue string) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, ours := f.GetName(), false
			for _, l := range m.GetLabel() {
				if l.GetName() == "queue" {
					ours = l.GetValue() == queue
				} else {
					name += " " + l.GetValue()
				}
			}
			if ours {
				found[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
					float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return found
}

// TestMetrics checks the metrics of a queue from its definition to its deletion.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	o := w.options(t)
	o.Metrics, o.IdleAfter = measured(t, registry), 20*time.Millisecond
	s := newService(t, o)
	background(t, s.Run)
	_, _, err := s.PutQueue(t.Context(), define(t, "duel", `{}`))
	require.NoError(t, err)
	require.Empty(t, values(t, registry, "duel"), "an unused queue has none")
	var third string
	for range 3 {
		third = create(t, s, service.NewTicket{Queue: "duel"}).ID
	}
	require.Eventually(t, func() bool {
		v := values(t, registry, "duel")
		return v["tidemark_matches_total"] == 1 && v["tidemark_ticket_wait_seconds"] == 2 &&
			v["tidemark_relay_lag_seconds"] == 2 &&
			v["tidemark_director"] == 1 && v["tidemark_tickets_created_total"] == 3 &&
			v["tidemark_tickets SEARCHING"] == 1 && v["tidemark_tickets PENDING"] == 0
	}, soon, 5*time.Millisecond)
	require.NoError(t, s.Cancel(t.Context(), third))
	require.Eventually(t, func() bool {
		v := values(t, registry, "duel")
		_, tickets := v["tidemark_tickets SEARCHING"]
		return v["tidemark_director"] == 0 && !tickets && v["tidemark_tickets_cancelled_total"] == 1
	}, soon, 5*time.Millisecond, "an idle queue has no director, which reports the tickets")
	require.NoError(t, s.DeleteQueue(t.Context(), "duel"))
	require.Eventually(t, func() bool { return len(values(t, registry, "duel")) == 0 }, soon, 5*time.Millisecond)
}
