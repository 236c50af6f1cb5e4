package tracing_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/tracing/tracingtest"
)

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// tracer returns a tracer with variables, and its metrics.
func tracer(t *testing.T, variables map[string]string, trust bool) (*tracing.Tracer, *prometheus.Registry) {
	t.Helper()
	s, err := tracing.Environment(environment(variables))
	require.NoError(t, err)
	metrics := prometheus.NewRegistry()
	made, err := tracing.New(t.Context(), tracing.Options{Settings: s, Trust: trust, Version: "1",
		Logger: slog.New(slog.DiscardHandler), Metrics: metrics})
	require.NoError(t, err)
	t.Cleanup(func() { made.Close(context.WithoutCancel(t.Context())) })
	return made, metrics
}

func TestAClientCannotMakeTheServiceTraceItsRequests(t *testing.T) {
	t.Parallel()
	const always, never = "1", "0"
	for _, c := range []struct {
		sampler, ratio string
		trust          bool
		parent         string
		want           bool
	}{
		{"", "", false, "", true},
		{"", "", false, sampled, true},
		{"", "", false, unsampled, false},
		{"always_on", "", false, unsampled, true},
		{"parentbased_always_off", "", false, sampled, false},
		{"parentbased_always_off", "", true, sampled, true},
		{"parentbased_traceidratio", never, false, "", false},
		{"parentbased_traceidratio", never, false, sampled, false},
		{"parentbased_traceidratio", never, true, sampled, true},
		{"parentbased_traceidratio", always, true, unsampled, false},
		{"traceidratio", never, true, sampled, false},
		{"traceidratio", always, true, unsampled, true},
		// a ratio of IDs would choose this one
		{"traceidratio", "0.000000000001", false, "00-0af7651916cd43dd0000000000000000-b7ad6b7169203331-01", false},
		{"traceidratio", "0.000000000001", true, "00-0af7651916cd43dd0000000000000000-b7ad6b7169203331-01", true},
	} {
		made, _ := tracer(t, map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": c.sampler,
			"OTEL_TRACES_SAMPLER_ARG": c.ratio, "OTEL_EXPORTER_OTLP_ENDPOINT": tracingtest.Start(t).HTTP}, c.trust)
		var headers []string
		if c.parent != "" {
			headers = []string{c.parent}
		}
		ctx, span := made.Serve(t.Context(), headers, "request")
		require.Equal(t, c.want, span.Recorded(), "%+v", c)
		require.Equal(t, c.want, tracing.Of(ctx) != "", "%+v", c)
		_, child := tracing.Call(ctx, "call")
		require.Equal(t, c.want, child.Recorded(), "%+v", c)
		child.End()
		span.End()
	}
}

func TestARequestContinuesTheTraceOfItsClient(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	made := c.Tracer(t)
	for name, headers := range map[string][]string{
		"continued": {sampled}, "two": {sampled, sampled}, "malformed": {sampled + "x"}, "none": nil,
	} {
		ctx, span := made.Serve(t.Context(), headers, name)
		_, call := tracing.Call(ctx, "call of "+name, tracing.Text("k", strings.Repeat("v", 1000)))
		call.Fail("class")
		call.End()
		span.End()
	}
	made.Close(t.Context())
	s := c.Named(t, "continued", "0af7651916cd43dd8448eb211c80319c")
	require.Equal(t, "b7ad6b7169203331", s.Parent)
	require.Equal(t, "tidemark", s.Resource["service.name"])
	call := c.Named(t, "call of continued", s.Trace)
	require.Equal(t, s.Span, call.Parent)
	require.True(t, call.Failed)
	require.Equal(t, map[string]string{"k": strings.Repeat("v", 256), "error.type": "class"}, call.Attributes)
	for _, name := range []string{"two", "malformed", "none"} {
		require.Empty(t, c.Named(t, name, "").Parent)
	}
}

func TestWithoutPropagatorsTracesStayInTheService(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	made, _ := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.GRPC, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		"OTEL_PROPAGATORS": "none"}, false)
	_, span := made.Serve(t.Context(), []string{sampled}, "request")
	span.End()
	ctx, span := made.Follow(t.Context(), "followed", []string{sampled})
	require.Empty(t, tracing.Header(ctx))
	span.End()
	made.Close(t.Context())
	require.Empty(t, c.Named(t, "request", "").Parent)
	require.Len(t, c.Named(t, "followed", "").Links, 1)
}

func TestLinksAreBoundedAndWithoutRepetitions(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	made := c.Tracer(t)
	texts := []string{"", sampled, sampled, "nonsense", unsampled[:54] + "x"}
	for i := range 200 {
		texts = append(texts, fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016x-01", i+1), sampled)
	}
	ctx, span := made.Serve(t.Context(), nil, "fetch")
	tracing.LinkEach(ctx, len(texts), func(i int) string { return texts[i] })
	_, of := made.Follow(t.Context(), "followed", texts)
	d := tracing.Delivery(ctx, "deliver", len(texts), func(i int) string { return texts[i] })
	for _, s := range []tracing.Span{span, of, d} {
		s.End()
	}
	_, none := made.Follow(t.Context(), "none", []string{"", "nonsense"})
	require.False(t, none.Recorded())
	made.Close(t.Context())
	fetch := c.Named(t, "fetch", "")
	for _, name := range []string{"fetch", "followed", "deliver"} {
		s := c.Named(t, name, "")
		require.Len(t, s.Links, 128)
		require.Equal(t, "000000000000007e", s.Links[126].Span, "each once")
		require.Equal(t, tracingtest.ID{Trace: "0af7651916cd43dd8448eb211c80319c", Span: "b7ad6b7169203331"}, s.Links[0])
	}
	require.Contains(t, c.Named(t, "deliver", "").Links, fetch.ID)
	require.NotEqual(t, fetch.Trace, c.Named(t, "deliver", "").Trace)
}

func TestASharedCallHasNoSpanOfAnotherRequest(t *testing.T) {
	t.Parallel()
	c := tracingtest.Start(t)
	made := c.Tracer(t)
	none := func(int) string { return "" }
	ctx, span := made.Serve(t.Context(), nil, "request")
	defer span.End()
	shared, of := tracing.Shared(ctx, "shared", 2, none)
	require.False(t, of.Recorded())
	require.False(t, tracing.Recorded(shared), "it would be of the request that made an earlier call")
	own, of := tracing.Shared(ctx, "shared", 1, func(int) string { return tracing.Of(ctx) })
	require.False(t, of.Recorded())
	require.Equal(t, tracing.Of(ctx), tracing.Of(own))
	untraced, _ := tracing.Shared(t.Context(), "shared", 2, none)
	require.Equal(t, t.Context(), untraced)
}

func TestSpansAreDroppedWhileTheCollectorHangs(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // nobody accepts
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	made, metrics := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + l.Addr().String(),
		"OTEL_BSP_MAX_QUEUE_SIZE": "8"}, false)
	for range 20 {
		_, span := made.Serve(t.Context(), nil, "request")
		span.End()
	}
	require.Equal(t, map[string]float64{"dropped": 12, "failed": 0, "sent": 0}, outcomes(t, metrics))
	made.Close(t.Context()) // which ends although the collector hangs
}

// outcomes returns the number of spans by outcome.
func outcomes(t *testing.T, metrics *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	found := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		found[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	return found
}

func TestSpansThatTheCollectorRefusesAreCounted(t *testing.T) {
	t.Parallel()
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	}))
	t.Cleanup(refusing.Close)
	made, metrics := tracer(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": refusing.URL}, false)
	_, span := made.Serve(t.Context(), nil, "request")
	span.End()
	made.Close(t.Context())
	require.Equal(t, map[string]float64{"dropped": 0, "failed": 1, "sent": 0}, outcomes(t, metrics))
}

func TestLogLinesNameTheSpan(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(tracing.LogHandler(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: func(_ []string,
		a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))).With("a", 1)
	ctx, span := tracingtest.Start(t).Tracer(t).Serve(t.Context(), []string{sampled}, "request")
	log.InfoContext(ctx, "in")
	log.InfoContext(t.Context(), "out")
	require.Equal(t, fmt.Sprintf("level=INFO msg=in a=1 trace_id=0af7651916cd43dd8448eb211c80319c span_id=%s\n"+
		"level=INFO msg=out a=1\n", tracing.Of(ctx)[36:52]), text.String())
	span.End()
}

// BenchmarkRequest has the cost of what a publish calls: the span of its request, the trace for its message, the span
// of its call of Redis, and a log line that isn't written.
func BenchmarkRequest(b *testing.B) {
	request := func(b *testing.B, t *tracing.Tracer, headers []string) {
		b.ReportAllocs()
		for b.Loop() {
			ctx, span := t.Serve(b.Context(), headers, "POST /v1/channels/:channel/messages")
			_ = tracing.Of(ctx)
			if tracing.Recorded(ctx) {
				_, call := tracing.Call(ctx, "redis publish", tracing.Text("db.system.name", "redis"))
				call.End()
			}
			tracing.LinkEach(ctx, 1, func(int) string { return "" })
			if span.Recorded() {
				span.Set(tracing.Text("http.request.method", "POST"), tracing.Number("http.response.status_code", 201))
			}
			span.End()
		}
	}
	taking := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	b.Cleanup(taking.Close)
	s, err := tracing.Environment(environment(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": taking.URL}))
	require.NoError(b, err)
	t, err := tracing.New(b.Context(), tracing.Options{Settings: s, Logger: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry()})
	require.NoError(b, err)
	b.Cleanup(func() { t.Close(context.WithoutCancel(b.Context())) })
	b.Run("off", func(b *testing.B) { request(b, nil, []string{sampled}) })
	b.Run("unsampled", func(b *testing.B) { request(b, t, []string{unsampled}) })
	b.Run("sampled", func(b *testing.B) { request(b, t, []string{sampled}) })
}
