package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/access/jwt"
	"github.com/tidemark-dev/tidemark/internal/access/keys"
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

// RegisterTokenKeys registers the metrics of the keys that verify tokens. sources returns their states.
func RegisterTokenKeys(r prometheus.Registerer, sources func() []jwt.Source) error {
	return r.Register(tokenKeys{sources})
}

// tokenKeys is a collector. Two sources with the same name are one.
type tokenKeys struct{ sources func() []jwt.Source }

var (
	tokenKeyFailures = prometheus.NewDesc("tidemark_jwt_key_failures_total",
		"Fetches of a set of keys of tokens that failed, and changed files of keys that could not be read.",
		[]string{"source"}, nil)
	tokenKeysFetched = prometheus.NewDesc("tidemark_jwt_keys_fetched_timestamp_seconds",
		"When a set of keys of tokens was fetched last; 0: never.", []string{"source"}, nil)
)

// Describe implements prometheus.Collector.
func (tokenKeys) Describe(to chan<- *prometheus.Desc) {
	to <- tokenKeyFailures
	to <- tokenKeysFetched
}

// Collect implements prometheus.Collector.
func (t tokenKeys) Collect(to chan<- prometheus.Metric) {
	known := map[string]bool{}
	for _, s := range t.sources() {
		if known[s.Name] {
			continue
		}
		known[s.Name] = true
		to <- prometheus.MustNewConstMetric(tokenKeyFailures, prometheus.CounterValue, float64(s.Failures), s.Name)
		if s.Set {
			to <- prometheus.MustNewConstMetric(tokenKeysFetched, prometheus.GaugeValue,
				max(0, float64(s.Fetched.UnixMilli())/1e3), s.Name)
		}
	}
}

// RegisterCertificate registers the metric of the certificate that a server shows. notAfter returns when it expires.
func RegisterCertificate(r prometheus.Registerer, file string, notAfter func() time.Time) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "tidemark_certificate_not_after_timestamp_seconds",
		Help:        "When the certificate that the server shows expires, or an earlier one of its chain.",
		ConstLabels: prometheus.Labels{"file": file},
	}, func() float64 { return float64(notAfter().Unix()) }))
}
