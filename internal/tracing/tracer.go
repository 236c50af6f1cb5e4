package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// scope is the name of the instrumentation.
const scope = "github.com/tidemark-dev/tidemark"

// FlushTime is how long Close waits for the collector to take the last spans.
const FlushTime = 2 * time.Second

// maxValue is the length at which the value of an attribute is cut, unless OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT says
// otherwise: names that clients send may be as long as their requests.
const maxValue = 256

// Options configures a Tracer. All fields are required.
type Options struct {
	Settings Settings
	Trust    bool   // clients decide which of their requests are traced
	Version  string // of the program
	Logger   *slog.Logger
	Metrics  prometheus.Registerer // gets the metric of the spans
}

// Tracer begins spans. A nil Tracer begins none. Its methods may be called by several goroutines.
type Tracer struct {
	tracer    trace.Tracer
	provider  *sdk.TracerProvider
	exporter  *exporter
	propagate bool
	closing   sync.Once
}

// New returns a Tracer that sends spans to the collector of the settings, or nil if they are off. It doesn't connect: a
// collector that can't be reached costs spans, which are counted. Errors of OpenTelemetry's packages are logged from now
// on by the Logger, in the whole process. Close it.
func New(ctx context.Context, o Options) (*Tracer, error) {
	s := o.Settings
	if !s.On {
		return nil, nil
	}
	logErrors(o.Logger)
	about, err := resource.New(ctx, resource.WithHost(), resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "tidemark"),
			attribute.String("service.version", o.Version)),
		resource.WithFromEnv()) // the last one wins
	if err != nil && !errors.Is(err, resource.ErrPartialResource) { // which the provider reports, too
		return nil, fmt.Errorf("describe the service to the collector of traces: %w", err)
	}
	to, err := s.exporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the collector of traces: %w", err)
	}
	s.sampling.trust = o.Trust
	e := newExporter(to, s.queue, o)
	limits := sdk.NewSpanLimits()
	if limits.AttributeValueLengthLimit < 0 {
		limits.AttributeValueLengthLimit = maxValue
	}
	p := sdk.NewTracerProvider(sdk.WithRawSpanLimits(limits), sdk.WithResource(about), sdk.WithSampler(s.sampling),
		sdk.WithSpanProcessor(e))
	made.Store(true)
	return &Tracer{tracer: p.Tracer(scope), provider: p, exporter: e, propagate: s.propagate}, nil
}

// exporter returns the exporter to the collector. What isn't set here, it reads from the environment.
func (s Settings) exporter(ctx context.Context) (sdk.SpanExporter, error) {
	switch {
	case s.protocol == protocolGRPC && s.endpoint != "":
		return otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(s.endpoint))
	case s.protocol == protocolGRPC:
		return otlptracegrpc.New(ctx)
	case s.endpoint != "":
		return otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(s.endpoint))
	}
	return otlptracehttp.New(ctx)
}

// Close sends the spans that wait, for FlushTime at most, and ends the connection to the collector. Spans that end
// later are dropped. Only the first call has an effect.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.closing.Do(func() {
		ctx, cancel := context.WithTimeout(ctx, FlushTime)
		defer cancel()
		if err := t.provider.Shutdown(ctx); err != nil {
			t.exporter.log.WarnContext(ctx, "not all traces were sent before the end", "error", err)
		}
		close(t.exporter.ended)
	})
}

// Serve begins the span of a request. traceparent has the values of that header; it is ignored unless it has exactly
// one, which is well-formed. The headers tracestate and baggage are never read.
func (t *Tracer) Serve(ctx context.Context, traceparent []string, name string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if t.propagate && len(traceparent) == 1 {
		ctx = propagation.TraceContext{}.Extract(ctx, parentHeader(traceparent[0]))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, Span{span}
}

// Follow begins the span of work in the background that follows from the spans of traces, texts of Of, to which it is
// linked. Without any it begins none. It is sampled, since they are.
func (t *Tracer) Follow(ctx context.Context, name string, traces []string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	if !t.propagate {
		ctx = context.WithValue(ctx, silent{}, true)
	}
	return follow(ctx, t.tracer, name, trace.SpanKindInternal, linksTo(traces))
}

// follow begins a trace that is linked to spans, unless there are none.
func follow(ctx context.Context, t trace.Tracer, name string, kind trace.SpanKind, links []trace.Link) (
	context.Context, Span) {
	if len(links) == 0 {
		return ctx, Span{}
	}
	ctx, span := t.Start(context.WithValue(ctx, following{}, true), name, trace.WithNewRoot(), trace.WithSpanKind(kind),
		trace.WithLinks(links...))
	return context.WithValue(ctx, following{}, nil), Span{span}
}

// parentHeader is the value of a header traceparent, as propagation.TextMapCarrier.
type parentHeader string

// traceparent is the header that carries a trace.
const traceparent = "traceparent"

// Get returns a header.
func (h parentHeader) Get(name string) string {
	if name == traceparent {
		return string(h)
	}
	return ""
}

// Set does nothing: the header is only read.
func (parentHeader) Set(string, string) {}

// Keys returns the names of the headers.
func (parentHeader) Keys() []string { return []string{traceparent} }
