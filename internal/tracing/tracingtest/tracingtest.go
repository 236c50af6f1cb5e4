// Package tracingtest has a collector of traces for tests, which takes them by OTLP over HTTP and over gRPC.
package tracingtest

import (
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/internal/tracing"
)

// patience is how long Await waits.
const patience = 30 * time.Second

// Collector keeps the spans that it gets. Its methods may be called by several goroutines.
type Collector struct {
	collector.UnimplementedTraceServiceServer

	HTTP, GRPC string // URLs

	mu      sync.Mutex
	spans   []Span
	changed chan struct{} // closed and replaced when spans arrive
	header  http.Header   // of the last request over HTTP
}

// Span is a span. IDs are in hexadecimal digits.
type Span struct {
	ID
	Name       string
	Parent     string // its span ID; empty: it is a root
	Kind       otlp.Span_SpanKind
	Links      []ID
	Failed     bool
	Attributes map[string]string
	Resource   map[string]string
}

// ID names a span.
type ID struct{ Trace, Span string }

// Traceparent returns the header traceparent of a sampled span.
func (id ID) Traceparent() string { return "00-" + id.Trace + "-" + id.Span + "-01" }

// Start starts a collector, until the end of the test.
func Start(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{changed: make(chan struct{})}
	web := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(web.Close)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	rpc := grpc.NewServer()
	collector.RegisterTraceServiceServer(rpc, c)
	served := make(chan error, 1)
	go func() { served <- rpc.Serve(l) }()
	t.Cleanup(func() {
		rpc.Stop()
		assert.NoError(t, <-served)
	})
	c.HTTP, c.GRPC = web.URL, "http://"+l.Addr().String()
	return c
}

// Tracer returns a tracer that sends to the collector when it is closed, or later.
func (c *Collector) Tracer(t *testing.T) *tracing.Tracer {
	t.Helper()
	s, err := tracing.Environment(func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP}[name]
	})
	require.NoError(t, err)
	tracer, err := tracing.New(t.Context(), tracing.Options{Settings: s, Logger: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry()})
	require.NoError(t, err)
	t.Cleanup(func() { tracer.Close(context.WithoutCancel(t.Context())) })
	return tracer
}

// serve answers POST /v1/traces.
func (c *Collector) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := new(collector.ExportTraceServiceRequest)
	if err == nil && r.URL.Path == "/v1/traces" {
		err = proto.Unmarshal(body, request)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.record(request, r.Header)
	w.Header().Set("Content-Type", "application/x-protobuf") // an empty answer
}

// Export takes spans over gRPC.
func (c *Collector) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	c.record(r, nil)
	return new(collector.ExportTraceServiceResponse), nil
}

func (c *Collector) record(r *collector.ExportTraceServiceRequest, header http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = header
	for _, resource := range r.GetResourceSpans() {
		about := attributesOf(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(s, about))
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

func spanOf(s *otlp.Span, resource map[string]string) Span {
	made := Span{
		ID:   ID{hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId())},
		Name: s.GetName(), Parent: hex.EncodeToString(s.GetParentSpanId()), Kind: s.GetKind(),
		Failed:     s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR,
		Attributes: attributesOf(s.GetAttributes()), Resource: resource,
	}
	for _, l := range s.GetLinks() {
		made.Links = append(made.Links, ID{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	return made
}

func attributesOf(all []*common.KeyValue) map[string]string {
	found := map[string]string{}
	for _, attribute := range all {
		switch v := attribute.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			found[attribute.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			found[attribute.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		default:
			found[attribute.GetKey()] = attribute.GetValue().String()
		}
	}
	return found
}

// Header returns the headers of the last request over HTTP.
func (c *Collector) Header() http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.header
}

// Spans returns all spans.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Await returns the first span that matches, and waits for it.
func (c *Collector) Await(t *testing.T, what string, match func(Span) bool) Span {
	t.Helper()
	for limit := time.After(patience); ; {
		c.mu.Lock()
		spans, changed := c.spans, c.changed
		c.mu.Unlock()
		for _, s := range spans {
			if match(s) {
				return s
			}
		}
		select {
		case <-changed:
		case <-limit:
			require.FailNow(t, "no span "+what, "%+v", spans)
		}
	}
}

// Named returns the first span with a name in a trace, "" for any, and waits for it.
func (c *Collector) Named(t *testing.T, name, trace string) Span {
	t.Helper()
	return c.Await(t, name, func(s Span) bool { return s.Name == name && (trace == "" || s.Trace == trace) })
}
