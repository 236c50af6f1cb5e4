package web

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/tracing/tracingtest"
)

// TestHistograms: a route has a histogram from its first request. It has exemplars of sampled traces where OpenMetrics is
// asked for, and a native histogram where protobuf is.
func TestHistograms(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	tracer := tracingtest.Start(t).Tracer(t)
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Metrics: registry, Tracer: tracer})
	for _, path := range []string{"/used", "/unused"} {
		API{Router: r, Fail: Fail}.Add(Route{Method: http.MethodPut, Path: path, Action: access.Admin,
			Handle: func(c *Call) error { return c.NoContent() }})
	}
	for _, flags := range []trace.TraceFlags{trace.FlagsSampled, 0} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/used", nil)
		span := trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1 + byte(flags)}, SpanID: trace.SpanID{2}, TraceFlags: flags})
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, request.WithContext(trace.ContextWithSpanContext(request.Context(), span)))
		require.Equal(t, http.StatusNoContent, answer.Code)
	}
	page := func(accept string) []byte {
		request, answer := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), httptest.NewRecorder()
		request.Header.Set("Accept", accept)
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(answer, request)
		return answer.Body.Bytes()
	}

	plain := string(page("text/plain"))
	require.Contains(t, plain, `tidemark_http_request_seconds_count{method="PUT",route="/used"} 2`)
	require.NotContains(t, plain, `route="/unused"`)
	require.NotContains(t, plain, "trace_id")
	open := string(page("application/openmetrics-text; version=1.0.0"))
	require.Contains(t, open, ` # {trace_id="02000000000000000000000000000000"} `)
	require.NotContains(t, open, `trace_id="01`, "the trace isn't sampled")

	decoder := expfmt.NewDecoder(bytes.NewReader(page(`application/vnd.google.protobuf;`+
		`proto=io.prometheus.client.MetricFamily;encoding=delimited`)), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		require.NotErrorIs(t, err, io.EOF, "no histogram")
		require.NoError(t, err)
		if family.GetName() == "tidemark_http_request_seconds" {
			h := family.GetMetric()[0].GetHistogram()
			require.NotEmpty(t, h.GetPositiveSpan())
			require.Len(t, h.GetBucket(), 16)
			return
		}
	}
}
