package durable

import "github.com/prometheus/client_golang/prometheus"

// counts are the metrics of server-sent events.
type counts struct {
	open prometheus.Gauge
	cut  prometheus.Counter
}

func newCounts(registry *prometheus.Registry) counts {
	labels := prometheus.Labels{"transport": "durable"}
	c := counts{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_streams", Help: "Open streams, and open WebSockets.", ConstLabels: labels,
		}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_streams_cut_total", Help: "Streams that were cut off because their clients read too slowly.",
			ConstLabels: labels,
		}),
	}
	registry.MustRegister(c.open, c.cut)
	return c
}
