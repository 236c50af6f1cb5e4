package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
)

// RegisterLags registers the metrics of the lags of subscribers. lags is the service's Lags.
func RegisterLags(r prometheus.Registerer, lags func() ([]channel.Lag, bool)) error {
	return r.Register(lagCollector{lags})
}

type lagCollector struct{ lags func() ([]channel.Lag, bool) }

var (
	lagPositions = prometheus.NewDesc("tidemark_subscriber_lag_messages",
		"Messages published after the mark of a subscriber, alive or expired, of channels whose rule has lagMetrics.",
		[]string{"channel", "subscriber"}, nil)
	lagsIncomplete = prometheus.NewDesc("tidemark_subscriber_lag_incomplete",
		"1 if some lags are left out, since there are too many channels or subscribers.", nil, nil)
)

// Describe implements prometheus.Collector.
func (lagCollector) Describe(to chan<- *prometheus.Desc) {
	to <- lagPositions
	to <- lagsIncomplete
}

// Collect implements prometheus.Collector.
func (l lagCollector) Collect(to chan<- prometheus.Metric) {
	lags, complete := l.lags()
	for _, lag := range lags {
		to <- prometheus.MustNewConstMetric(lagPositions, prometheus.GaugeValue, float64(lag.Positions), lag.Channel,
			lag.Subscriber)
	}
	incomplete := 1.0
	if complete {
		incomplete = 0
	}
	to <- prometheus.MustNewConstMetric(lagsIncomplete, prometheus.GaugeValue, incomplete)
}
