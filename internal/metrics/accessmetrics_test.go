package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/access/keys"
	"github.com/tidemark-dev/tidemark/internal/metrics"
)

func TestRegisterAccess(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	count := func() keys.Counts {
		return keys.Counts{Keys: 2, Configured: 1, Revocations: 5, Loads: 7, Current: time.UnixMilli(1500)}
	}
	require.NoError(t, metrics.RegisterAccess(r, count))
	require.Error(t, metrics.RegisterAccess(r, count), "they are registered once")
	families, err := r.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, f := range families {
		found[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
	}
	require.Equal(t, map[string]float64{
		"tidemark_access_keys": 3, "tidemark_access_revocations": 5, "tidemark_access_loads_total": 7,
		"tidemark_access_current_timestamp_seconds": 1.5,
	}, found)
}
