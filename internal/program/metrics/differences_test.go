package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/program/metrics"
)

func TestRegisterDifferences(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	count := func() (queues, channels, kinds int) { return 2, 1, 3 }
	require.NoError(t, metrics.RegisterDifferences(r, count))
	require.Error(t, metrics.RegisterDifferences(r, count), "they are registered once")
	require.Equal(t, []string{
		`tidemark_configuration_differences label:{name:"of" value:"channels"} gauge:{value:1}`,
		`tidemark_configuration_differences label:{name:"of" value:"kinds"} gauge:{value:3}`,
		`tidemark_configuration_differences label:{name:"of" value:"queues"} gauge:{value:2}`,
	}, gathered(t, r))
}
