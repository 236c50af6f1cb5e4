package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
)

// Keys is a keyspace.Metrics. Only the server that counts has values, so that the sum over all servers is right.
type Keys struct {
	keys, bytes, endless, counted *prometheus.GaugeVec
}

// NewKeys returns registered metrics. labelRedis is the name of the label for the Redis.
func NewKeys(r prometheus.Registerer, labelRedis string) (*Keys, error) {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			append([]string{labelRedis}, labels...))
	}
	m := &Keys{
		keys:    gauge("tidemark_keys", "Keys in Redis, by kind.", "kind"),
		bytes:   gauge("tidemark_key_bytes", "Memory of the keys, estimated from a sample.", "kind"),
		endless: gauge("tidemark_keys_without_ttl", "Keys without a TTL, of kinds that are temporary.", "kind"),
		counted: gauge("tidemark_keys_counted_timestamp_seconds", "When the keys were counted last."),
	}
	return m, errors.Join(r.Register(m.keys), r.Register(m.bytes), r.Register(m.endless), r.Register(m.counted))
}

// Show shows the kinds of a report.
func (m *Keys) Show(redis string, r keyspace.Report, at time.Time) {
	for _, k := range r.Kinds {
		m.keys.WithLabelValues(redis, k.Name).Set(float64(k.Keys))
		m.bytes.WithLabelValues(redis, k.Name).Set(float64(k.Bytes))
		m.endless.WithLabelValues(redis, k.Name).Set(float64(k.Problems.NoTTL))
	}
	m.counted.WithLabelValues(redis).Set(float64(at.UnixMilli()) / 1e3)
}

// Clear removes all values.
func (m *Keys) Clear() {
	for _, gauge := range []*prometheus.GaugeVec{m.keys, m.bytes, m.endless, m.counted} {
		gauge.Reset()
	}
}
