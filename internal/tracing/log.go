package tracing

import (
	"context"
	"log/slog"
)

// LogHandler returns a handler that adds trace_id and span_id to what is logged with the context of a span.
func LogHandler(to slog.Handler) slog.Handler { return logHandler{to} }

type logHandler struct{ slog.Handler }

// Handle logs a record.
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if of := spanOfContext(ctx).SpanContext(); of.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", of.TraceID().String()), slog.String("span_id", of.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with attributes.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler whose attributes are in a group.
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
