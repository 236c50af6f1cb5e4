package compose_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

// onLoopback is what URLs of requests begin with: an open service is used by its address only.
const onLoopback = "http://127.0.0.1"

// TestMetrics: the counters of the services are shown.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Standalone(t).URL(), "braces")
	t.Cleanup(func() { require.NoError(t, s.needs.Parts.Stop()) })
	for _, request := range []string{
		"PUT /v1/cache/author-follows-topics/ann [5]", "GET /v1/cache/author-follows-topics/ann",
		"GET /v1/cache/topic/none",
		"GET /v1/users/ann/channels", "GET /v1/users/ann/channels",
		`POST /v1/sessions/check {"token":"guessed"}`,
		"PUT /v1/locks/resize/7 {}", "PUT /v1/locks/resize/7 {}",
		`DELETE /v1/locks/resize/7 {"token":"tml_AAAAAAAAAAAAAAAA"}`,
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		s.handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, onLoopback+path,
			strings.NewReader(body)))
	}
	families, err := s.needs.Metrics.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := strings.TrimPrefix(f.GetName(), "tidemark_")
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if value := m.GetCounter().GetValue(); value > 0 {
				found[name] = value
			}
		}
	}
	require.Equal(t, map[string]float64{
		"cache_events_total hit-redis author-follows-topics": 3,

		"cache_events_total miss topic": 1, "cache_events_total miss author-follows-authors": 2,
		"cache_events_total miss author-follows-shouts": 2,
		"session_checks_total unknown":                  1, "locks_total acquired": 1, "locks_total held": 1,
		"locks_total lost": 1,
	}, found)
}
