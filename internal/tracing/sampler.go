package tracing

import (
	"math/rand/v2"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// sampling decides which spans are recorded and sent. A span with a parent in this process is if its parent is, and one
// of Follow always is. For all others a client must not be able to decide more than that it isn't traced: neither by
// its flag, nor by an ID that a ratio of IDs would choose.
type sampling struct {
	ratio   float64 // of the traces that begin here
	parents bool    // a client's flag matters
	trust   bool    // it alone decides
}

// following is the context key of the spans of Follow.
type following struct{}

// ShouldSample implements the SDK's Sampler.
func (s sampling) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	decision := sdk.Drop
	if s.samples(p) {
		decision = sdk.RecordAndSample
	}
	return sdk.SamplingResult{Decision: decision}
}

func (s sampling) samples(p sdk.SamplingParameters) bool {
	if p.ParentContext.Value(following{}) != nil {
		return true
	}
	parent := trace.SpanContextFromContext(p.ParentContext)
	switch {
	case parent.IsValid() && !parent.IsRemote():
		return parent.IsSampled()
	case parent.IsValid() && s.parents && (s.trust || !parent.IsSampled()):
		return parent.IsSampled()
	case parent.IsValid() && s.trust: // several services choose the same traces
		return sdk.TraceIDRatioBased(s.ratio).ShouldSample(p).Decision == sdk.RecordAndSample
	}
	return s.ratio >= 1 || rand.Float64() < s.ratio //nolint:gosec // a client can't see its result, nor gain by it
}

// Description implements the SDK's Sampler.
func (sampling) Description() string { return "tidemark" }
