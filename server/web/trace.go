package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

// headerTraceparent has the trace of the client.
const headerTraceparent = "Traceparent"

// beginSpan begins the span of the request, except of probes, metrics, and requests without a route.
func (c *Call) beginSpan() {
	if c.route.named != "" && !c.route.always {
		c.ctx, c.span = c.route.router.tracer.Serve(c.ctx, c.request.Header[headerTraceparent], c.route.named)
	}
}

// EndSpan ends the span of the request, with the outcome until now. Handlers whose answers may last for hours call it
// when the answer has begun.
func (c *Call) EndSpan() {
	if c.span.Recorded() {
		c.describe()
	}
	c.span.End()
}

// describe sets the attributes of the span. Paths, queries, addresses and bodies aren't among them: they may have
// secrets, and names of persons.
func (c *Call) describe() {
	status := c.outcome()
	c.span.Set(tracing.Text("http.request.method", c.request.Method), tracing.Text("http.route", c.route.metrics.route),
		tracing.Number("http.response.status_code", status),
		tracing.Text("network.protocol.version", strings.TrimSuffix(strings.TrimPrefix(c.request.Proto, "HTTP/"), ".0")))
	if strings.Contains(c.route.Path, "/:channel") {
		c.span.Set(tracing.Text(tracing.Channel, c.Param(0)))
	}
	switch {
	case status >= http.StatusInternalServerError:
		c.span.Fail(ErrorClass(c.err))
	case status >= http.StatusBadRequest:
		c.span.Set(tracing.Text(tracing.ErrorType, ErrorClass(c.err)))
	}
}

// ErrorClass returns the slug of an error, for spans.
func ErrorClass(err error) string {
	var e *fault.Error
	if errors.As(err, &e) && e.Slug != "" {
		return string(e.Slug)
	}
	return string(fault.SlugInternal)
}
