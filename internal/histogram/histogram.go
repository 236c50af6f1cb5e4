// Package histogram has the options of all histograms of durations: a native histogram beside the classic buckets,
// and exemplars that name the trace of a request.
package histogram

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// The bounds of a native histogram. Only a scrape in the protobuf format has one.
const (
	factor     = 1.1 // of a bucket's bounds
	maxBuckets = 100 // then buckets are merged, at most once in resetAfter emptied
	resetAfter = time.Hour
)

// Options returns the options of a histogram in seconds with these classic buckets.
func Options(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: factor,
		NativeHistogramMaxBucketNumber: maxBuckets, NativeHistogramMinResetDuration: resetAfter,
	}
}

// Observe adds a duration. If ctx belongs to a sampled trace, the exemplar of its bucket is the ID of the trace.
func Observe(ctx context.Context, to prometheus.ExemplarObserver, took time.Duration) {
	var labels prometheus.Labels // nil: no exemplar
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() {
		labels = prometheus.Labels{"trace_id": span.TraceID().String()}
	}
	to.ObserveWithExemplar(took.Seconds(), labels)
}
