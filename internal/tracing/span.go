package tracing

import (
	"context"
	"encoding/hex"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// maxLinks is how many links a span gets: the default of the SDK, which drops further ones.
const maxLinks = 128

// Attribute is an attribute of a span. Names are those of OpenTelemetry's semantic conventions where these have one.
type Attribute = attribute.KeyValue

// Text returns an attribute with a text.
func Text(name, value string) Attribute { return attribute.String(name, value) }

// Number returns an attribute with a number.
func Number(name string, value int) Attribute { return attribute.Int(name, value) }

// Names of attributes that several packages set.
const (
	Channel   = "messaging.destination.name"
	Messages  = "messaging.batch.message_count"
	Calls     = "db.operation.batch.size"
	Queue     = "tidemark.queue"
	Match     = "tidemark.match.id"
	Tickets   = "tidemark.match.tickets"
	ErrorType = "error.type"
)

// Span is a span, or nothing if it is the zero value.
type Span struct{ span trace.Span }

// Recorded reports whether the span is recorded and has not ended.
func (s Span) Recorded() bool { return s.span != nil && s.span.IsRecording() }

// Set sets attributes. Call it only if the span is recorded, so that they cost nothing otherwise.
func (s Span) Set(attributes ...Attribute) { s.span.SetAttributes(attributes...) }

// Fail marks the span as failed, with the class of the error: a code or a slug, since texts may have values of users.
func (s Span) Fail(class string) {
	if s.Recorded() {
		s.span.SetAttributes(attribute.String(ErrorType, class))
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span. Only the first call has an effect.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// made is set once there was a Tracer: before, no context has a span, and looking for one takes time in each request.
var made atomic.Bool

// spanOfContext returns the span of a context, which does nothing if there is none.
func spanOfContext(ctx context.Context) trace.Span {
	if !made.Load() {
		return noop.Span{}
	}
	return trace.SpanFromContext(ctx)
}

// From returns the span of a context.
func From(ctx context.Context) Span { return Span{spanOfContext(ctx)} }

// Recorded reports whether a context has a span that is recorded. It is false without tracing.
func Recorded(ctx context.Context) bool { return spanOfContext(ctx).IsRecording() }

// ID returns the ID of the trace of a context in hexadecimal digits, or "" if the context has no sampled span.
func ID(ctx context.Context) string {
	if span := spanOfContext(ctx).SpanContext(); span.IsSampled() {
		return span.TraceID().String()
	}
	return ""
}

// Call begins the span of a call of another service, such as Redis, if the context has a recorded span: its child.
func Call(ctx context.Context, name string, attributes ...Attribute) (context.Context, Span) {
	parent := spanOfContext(ctx)
	if !parent.IsRecording() {
		return ctx, Span{}
	}
	ctx, span := parent.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attributes...))
	return ctx, Span{span}
}

// Shared begins the span of a call that is made for several requests at once, each with the text of its own span. It is
// a child of the first sampled one and linked to the others. ctx is derived from that of any request, which may not be
// one of these: without sampled ones the returned context has no recorded span. A request that makes its own call alone
// gets no further span.
func Shared(ctx context.Context, name string, requests int, of func(i int) string) (context.Context, Span) {
	first := spanOfContext(ctx)
	var links []trace.Link
	eachOf(requests, of, func(l trace.Link) { links = append(links, l) })
	if len(links) == 0 {
		if first.IsRecording() {
			ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
		}
		return ctx, Span{}
	}
	if requests == 1 && links[0].SpanContext.TraceID() == first.SpanContext().TraceID() {
		return ctx, Span{} // it is the request's own call
	}
	ctx = trace.ContextWithSpanContext(ctx, links[0].SpanContext)
	ctx, span := first.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithLinks(links[1:]...), trace.WithAttributes(Number(Calls, requests)))
	return ctx, Span{span}
}

// Sampled reports whether the request of a context is sampled: otherwise it has no Delivery.
func Sampled(ctx context.Context) bool { return spanOfContext(ctx).SpanContext().IsSampled() }

// Delivery begins the span of a delivery of messages, with their texts, on a stream, which ctx is derived from: a trace
// of its own, since a stream may last for hours, linked to the opening of the stream and to the messages. There is none
// unless both were sampled.
func Delivery(ctx context.Context, name string, messages int, of func(i int) string) Span {
	opening := spanOfContext(ctx)
	if !opening.SpanContext().IsSampled() {
		return Span{}
	}
	var links []trace.Link
	eachOf(messages, of, func(l trace.Link) { links = append(links, l) })
	if len(links) == 0 {
		return Span{}
	}
	links = append(links[:min(len(links), maxLinks-1)], trace.Link{SpanContext: opening.SpanContext()})
	_, span := follow(ctx, opening.TracerProvider().Tracer(scope), name, trace.SpanKindConsumer, links)
	return span
}

// Of returns the text to be kept with what the request of a context creates: that of a traceparent header. It is empty
// unless the request is sampled.
func Of(ctx context.Context) string {
	of := spanOfContext(ctx).SpanContext()
	if !of.IsSampled() || !of.IsValid() {
		return ""
	}
	trace, span := of.TraceID(), of.SpanID()
	text := make([]byte, 0, textBytes)
	text = append(hex.AppendEncode(append(text, "00-"...), trace[:]), '-')
	return string(append(hex.AppendEncode(text, span[:]), "-01"...))
}

// textBytes is the length of a text of Of.
const textBytes = 55

// silent is the context key of spans that other services aren't told of.
type silent struct{}

// Header returns the value of the header traceparent for a call of another service, or "" if it gets none.
func Header(ctx context.Context) string {
	if ctx.Value(silent{}) != nil {
		return ""
	}
	return Of(ctx)
}

// LinkEach links the span of a context, if it is recorded, to those of n texts, 128 at most.
func LinkEach(ctx context.Context, n int, of func(i int) string) {
	span := spanOfContext(ctx)
	if span.IsRecording() {
		eachOf(n, of, span.AddLink)
	}
}

// eachOf calls add with links to the spans of texts, without repetitions and without those that aren't of spans.
func eachOf(n int, of func(i int) string, add func(trace.Link)) {
	last, remaining := "", maxLinks
	var seen map[trace.SpanID]bool
	for i := 0; i < n && remaining > 0; i++ {
		text := of(i)
		if text == "" || text == last {
			continue
		}
		last = text
		to, ok := spanOf(text)
		if !ok || seen[to.SpanID()] {
			continue
		}
		if seen == nil {
			seen = map[trace.SpanID]bool{}
		}
		seen[to.SpanID()] = true
		add(trace.Link{SpanContext: to})
		remaining--
	}
}

// spanOf returns the span of a text of Of, and reports whether it is one.
func spanOf(text string) (trace.SpanContext, bool) {
	if len(text) != textBytes {
		return trace.SpanContext{}, false
	}
	of, errTrace := trace.TraceIDFromHex(text[3:35])
	span, errSpan := trace.SpanIDFromHex(text[36:52])
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: of, SpanID: span, TraceFlags: trace.FlagsSampled}),
		errTrace == nil && errSpan == nil
}

// linksTo returns links to the spans of texts.
func linksTo(texts []string) (links []trace.Link) {
	eachOf(len(texts), func(i int) string { return texts[i] }, func(l trace.Link) { links = append(links, l) })
	return links
}
