package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/metrics"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m, err := metrics.NewKeys(r, "redis")
	require.NoError(t, err)
	_, err = metrics.NewKeys(r, "redis")
	require.Error(t, err, "they are registered once")
	m.Show("sessions",
		keyspace.Report{Kinds: []keyspace.Kind{{Name: "session", Keys: 5, Bytes: 700,
			Problems: keyspace.Counts{NoTTL: 1}}}}, time.UnixMilli(1500))
	require.Equal(t, []string{
		`tidemark_key_bytes label:{name:"kind" value:"session"} label:{name:"redis" value:"sessions"} gauge:{value:700}`,
		`tidemark_keys label:{name:"kind" value:"session"} label:{name:"redis" value:"sessions"} gauge:{value:5}`,
		`tidemark_keys_counted_timestamp_seconds label:{name:"redis" value:"sessions"} gauge:{value:1.5}`,
		`tidemark_keys_without_ttl label:{name:"kind" value:"session"} label:{name:"redis" value:"sessions"} gauge:{value:1}`,
	}, gathered(t, r))
	m.Clear()
	require.Empty(t, gathered(t, r))
}
