package metrics

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/access/keys"
)

// RegisterAccess registers the metrics of access. count returns their values.
func RegisterAccess(r prometheus.Registerer, count func() keys.Counts) error {
	gauge := func(name, help string, value func(keys.Counts) float64) error {
		return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(count()) }))
	}
	return errors.Join(
		gauge("tidemark_access_keys", "API keys that the server knows, those of the configuration included.",
			func(c keys.Counts) float64 {
				return float64(c.Keys + c.Configured)
			}),
		gauge("tidemark_access_revocations", "Revocations that the server knows.", func(c keys.Counts) float64 {
			return float64(c.Revocations)
		}),
		gauge("tidemark_access_current_timestamp_seconds",
			"When the server was last seen to know all API keys and revocations.", func(c keys.Counts) float64 {
				return float64(c.Current.UnixMilli()) / 1e3
			}),
		r.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "tidemark_access_loads_total", Help: "Times that all API keys and revocations were read.",
		}, func() float64 { return float64(count().Loads) })),
	)
}
