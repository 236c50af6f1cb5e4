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
	require.Equal(t, []string{
		"tidemark_access_current_timestamp_seconds gauge:{value:1.5}",
		"tidemark_access_keys gauge:{value:3}",
		"tidemark_access_loads_total counter:{value:7}",
		"tidemark_access_revocations gauge:{value:5}",
	}, gathered(t, r))
}
