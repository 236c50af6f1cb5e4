package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"
)

// logErrors sets where OpenTelemetry's packages log errors, such as those of variables that they can't use. It does so
// for the whole process.
func logErrors(to *slog.Logger) {
	sink := errorSink{to}
	otel.SetLogger(logr.New(sink))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		if errors.Is(err, resource.ErrPartialResource) { // its text has the items, which may be secrets
			err = errPartial
		}
		sink.Error(err, "sdk")
	}))
}

var errPartial = errors.New("an item of OTEL_RESOURCE_ATTRIBUTES isn't name=value")

// errorSink logs only errors, without their values: the text of OTEL_EXPORTER_OTLP_HEADERS may contain a token.
type errorSink struct{ to *slog.Logger }

// Init does nothing.
func (errorSink) Init(logr.RuntimeInfo) {}

// Enabled reports that nothing but errors is logged.
func (errorSink) Enabled(int) bool { return false }

// Info is not called.
func (errorSink) Info(int, string, ...any) {}

// Error logs an error.
func (s errorSink) Error(err error, action string, _ ...any) {
	s.to.Warn("opentelemetry reports an error", "error", fmt.Errorf("%s: %w", action, err))
}

// WithValues drops values.
func (s errorSink) WithValues(...any) logr.LogSink { return s }

// WithName drops the name.
func (s errorSink) WithName(string) logr.LogSink { return s }

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
