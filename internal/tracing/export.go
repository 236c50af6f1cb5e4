package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/time/rate"
)

// The outcomes of spans, in the metric.
const (
	outcomeSent    = "sent"
	outcomeFailed  = "failed"  // the collector refused them, or didn't answer
	outcomeDropped = "dropped" // too many waited
)

// failurePause is the time between two log lines of failed exports.
const failurePause = time.Minute

// exporter sends spans, and counts what became of them. It also limits how many wait: the SDK's processor, whose queue
// is as large, would drop spans without saying so.
type exporter struct {
	sdk.SpanProcessor                  // the SDK's, which calls send
	to                sdk.SpanExporter // the collector
	limit             int64
	waiting           atomic.Int64  // spans in the queue, or on their way
	ended             chan struct{} // closed when nothing is sent any more
	spans             *prometheus.CounterVec
	log               *slog.Logger
	failures          rate.Sometimes // of the log
}

// newExporter returns the processor of all spans that are sampled.
func newExporter(to sdk.SpanExporter, queue int, o Options) *exporter {
	e := &exporter{
		to: to, limit: int64(queue), ended: make(chan struct{}), log: o.Logger,
		failures: rate.Sometimes{First: 1, Interval: failurePause},
		spans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidemark_trace_spans_total",
			Help: "Spans of sampled traces, by their outcome: sent to the collector, failed, because it didn't take " +
				"them, or dropped, because too many waited.",
		}, []string{"outcome"}),
	}
	for _, outcome := range []string{outcomeSent, outcomeFailed, outcomeDropped} {
		e.spans.WithLabelValues(outcome)
	}
	o.Metrics.MustRegister(e.spans)
	e.SpanProcessor = sdk.NewBatchSpanProcessor(sender{e}, sdk.WithMaxQueueSize(queue))
	return e
}

// OnEnd queues a span, or drops it. It never waits.
func (e *exporter) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if e.waiting.Add(1) > e.limit {
		e.waiting.Add(-1)
		e.spans.WithLabelValues(outcomeDropped).Inc()
		return
	}
	e.SpanProcessor.OnEnd(s)
}

// sender is the exporter that the SDK's processor calls, one call at a time.
type sender struct{ *exporter }

// ExportSpans sends spans. It returns no error: the failure is counted and logged here.
func (s sender) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	defer s.waiting.Add(-int64(len(spans)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the processor's context doesn't end with the service
		select {
		case <-s.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	outcome := outcomeSent
	if err := s.to.ExportSpans(ctx, spans); err != nil {
		outcome = outcomeFailed
		s.failures.Do(func() {
			s.log.WarnContext(ctx, "cannot send traces to the collector", "spans", len(spans), "error", err)
		})
	}
	s.spans.WithLabelValues(outcome).Add(float64(len(spans)))
	return nil
}

// Shutdown closes the connection to the collector.
func (s sender) Shutdown(ctx context.Context) error { return s.to.Shutdown(ctx) }
