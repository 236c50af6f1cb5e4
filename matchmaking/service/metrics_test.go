package service_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/queuemetrics"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

// measured returns metrics in a registry.
func measured(t *testing.T, r *prometheus.Registry) service.Metrics {
	t.Helper()
	m, err := queuemetrics.New(r)
	require.NoError(t, err)
	return m
}

// values returns what a queue's metrics show: values of counters and gauges, and numbers of samples.
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
				found[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return found
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	registry := prometheus.NewRegistry()
	o.Metrics = measured(t, registry)
	s := newService(t, o)
	_, err := queuemetrics.New(registry)
	require.Error(t, err, "they are registered once")
	stop := background(t, s.Run)
	for range 3 {
		create(t, s, service.NewTicket{Queue: "duel"})
	}
	require.Eventually(t, func() bool {
		v := values(t, registry, "duel")
		return v["tidemark_matches_total"] >= 1 && v["tidemark_ticket_wait_seconds"] >= 2 && v["tidemark_relay_lag_seconds"] >= 2 &&
			v["tidemark_director"] == 1 && v["tidemark_tickets_created_total"] == 3 &&
			v["tidemark_tickets SEARCHING"] == 1 && v["tidemark_tickets PENDING"] == 0
	}, soon, 5*time.Millisecond)
	stop()
	v := values(t, registry, "duel")
	require.Zero(t, v["tidemark_director"])
	require.NotContains(t, v, "tidemark_tickets SEARCHING", "only the director reports them")
}
