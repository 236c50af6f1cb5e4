// Package tracing sends traces to an OpenTelemetry collector. Nothing else of the service imports OpenTelemetry's SDK.
//
// A [Tracer] begins the spans of work that comes from outside: requests ([Tracer.Serve]), and work in the background
// that follows from traced requests ([Tracer.Follow]). A nil Tracer, which is tracing turned off, begins none. All
// other spans are made from the span in their context ([Call], [Shared]), and only if that is recorded, so that stores and
// call-outs need no Tracer, and cost nothing in a process that never made one.
//
// What outlives its request, such as a message or a ticket, keeps the text of [Of]: that of a traceparent header, or
// nothing unless the request was sampled. What happens to it later is linked to that ([LinkEach]): the request has
// ended by then, so that it can't be the parent.
package tracing
