package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// gathered returns all metrics of r, a line each: the name, the labels and the value.
func gathered(t *testing.T, r *prometheus.Registry) (lines []string) {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if m.Counter != nil {
				m.Counter.CreatedTimestamp = nil
			}
			lines = append(lines, strings.Join(strings.Fields(f.GetName()+" "+m.String()), " "))
		}
	}
	return lines
}
