package metrics_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
)

func TestRegisterLags(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	require.NoError(t, metrics.RegisterLags(r, func() ([]channel.Lag, bool) {
		return []channel.Lag{{Channel: "c", Subscriber: "s", Positions: 7}}, false
	}))
	require.Equal(t, []string{
		"tidemark_subscriber_lag_incomplete gauge:{value:1}",
		`tidemark_subscriber_lag_messages label:{name:"channel" value:"c"} label:{name:"subscriber" value:"s"} gauge:{value:7}`,
	}, gathered(t, r))
}
