package web

import (
	"net/http"
	"strconv"
	"strings"

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
	path := c.route.Path // of a channel if it has a parameter of that name, or if all of its rest is one
	if (strings.Contains(path, "/:channel") || strings.HasSuffix(path, "/*") && c.route.Of != nil) &&
		status != http.StatusBadRequest { // else it may be no name
		c.span.Set(tracing.Text(tracing.Channel, c.Param(0)))
	}
	if status >= http.StatusBadRequest {
		SetError(c.span, status, c.err)
	}
}

// SetError sets the error of a request in its span: the slug. The span has failed if the status is 500 or more: others
// are mistakes of the client.
func SetError(span tracing.Span, status int, err error) {
	if !span.Recorded() {
		return
	}
	class := strconv.Itoa(status)
	if err != nil {
		class = string(ProblemOf(err).Slug())
	}
	if status >= http.StatusInternalServerError {
		span.Fail(class)
	} else {
		span.Set(tracing.Text(tracing.ErrorType, class))
	}
}
