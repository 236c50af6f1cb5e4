// Package histogram has the options of all histograms of durations: a native histogram beside the classic buckets,
// and exemplars that name the trace of a request.
package histogram

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// Observe adds a duration. The exemplar of its bucket is the ID of the trace that it belongs to, unless that is empty.
func Observe(trace string, to prometheus.ExemplarObserver, took time.Duration) {
	var labels prometheus.Labels // nil: no exemplar
	if trace != "" {
		labels = prometheus.Labels{"trace_id": trace}
	}
	to.ObserveWithExemplar(took.Seconds(), labels)
}
