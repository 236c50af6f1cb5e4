package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterDifferences registers the metric of differences between the configurations of servers. count returns its
// values.
func RegisterDifferences(r prometheus.Registerer, count func() (queues, channels, kinds int)) error {
	gauge := func(of string, value func() int) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tidemark_configuration_differences",
			Help: "Queues, rules for channels, and kinds of records, that another server on the same Redis defines " +
				"differently.",
			ConstLabels: prometheus.Labels{"of": of},
		}, func() float64 { return float64(value()) }))
	}
	return errors.Join(
		gauge("queues", func() int { queues, _, _ := count(); return queues }),
		gauge("channels", func() int { _, channels, _ := count(); return channels }),
		gauge("kinds", func() int { _, _, kinds := count(); return kinds }),
	)
}
