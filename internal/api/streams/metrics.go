package streams

import "github.com/prometheus/client_golang/prometheus"

// counts are the metrics of a transport.
type counts struct {
	open     prometheus.Gauge
	messages prometheus.Counter
	cut      prometheus.Counter
}

func newCounts(registry *prometheus.Registry, transport string) counts {
	labels := prometheus.Labels{"transport": transport}
	c := counts{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidemark_streams", Help: "Open streams, and open WebSockets.", ConstLabels: labels,
		}),
		messages: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_stream_messages_total", Help: "Messages sent on streams, repeats included.", ConstLabels: labels,
		}),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tidemark_streams_cut_total", Help: "Streams that were cut off because their clients read too slowly.",
			ConstLabels: labels,
		}),
	}
	registry.MustRegister(c.open, c.messages, c.cut)
	return c
}
