package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
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

func TestRegisterTokenKeys(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	require.NoError(t, metrics.RegisterTokenKeys(r, func() []jwt.Source {
		return []jwt.Source{{Name: "keys.pem", Failures: 1}, {Name: "a/jwks", Set: true, Failures: 2},
			{Name: "b/jwks", Set: true, Fetched: time.UnixMilli(1500)}, {Name: "b/jwks", Set: true}}
	}))
	require.Equal(t, []string{
		`tidemark_jwt_key_failures_total label:{name:"source" value:"a/jwks"} counter:{value:2}`,
		`tidemark_jwt_key_failures_total label:{name:"source" value:"b/jwks"} counter:{value:0}`,
		`tidemark_jwt_key_failures_total label:{name:"source" value:"keys.pem"} counter:{value:1}`,
		`tidemark_jwt_keys_fetched_timestamp_seconds label:{name:"source" value:"a/jwks"} gauge:{value:0}`,
		`tidemark_jwt_keys_fetched_timestamp_seconds label:{name:"source" value:"b/jwks"} gauge:{value:1.5}`,
	}, gathered(t, r))
}

func TestRegisterCertificate(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	require.NoError(t, metrics.RegisterCertificate(r, "server.pem", func() time.Time { return time.Unix(1500, 0) }))
	require.Equal(t, []string{
		`tidemark_certificate_not_after_timestamp_seconds label:{name:"file" value:"server.pem"} gauge:{value:1500}`,
	}, gathered(t, r))
}
