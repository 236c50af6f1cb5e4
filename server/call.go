package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidemark-dev/tidemark/wire"
)

// Names of headers, in the form in which net/http keeps them.
const (
	headerRequestID     = "X-Request-Id"
	headerRetryAfter    = "Retry-After"
	headerContentType   = "Content-Type"
	headerContentLength = "Content-Length"
	headerCacheControl  = "Cache-Control"
	headerConnection    = "Connection"
	headerSniffing      = "X-Content-Type-Options"
)

// Values of headers that many answers share. Nobody writes to them.
var (
	contentJSON    = []string{wire.MediaJSON}
	contentProblem = []string{wire.MediaProblem}
	noStore        = []string{"no-store"}
	noSniffing     = []string{"nosniff"}
	lastAnswer     = []string{"close"}
)

// call is one request on its way. It is used by one goroutine.
type call struct {
	route    *route
	request  *http.Request
	response http.ResponseWriter
	params   []string // of the path, as they came
	reserved bool     // the connection is one beyond the limit
	id       string   // of the request
	started  time.Time
	share    share // of the memory of all bodies
	status   int   // of the answer; 0: it hasn't begun
	err      error // what went wrong, for the log
}

func newCall(r *route, ec echo.Context) *call {
	c := &call{
		route: r, request: ec.Request(), response: ec.Response().Writer, params: ec.ParamValues(), started: time.Now(),
	}
	c.share = share{call: c, memory: r.server.bodies}
	c.reserved = c.request.Context().Value(reservedKey{}) != nil
	c.id = requestID(c.request.Header, c.started)
	return c
}

// begin starts the answer. Its headers are made here and not before, so that a fetch that waits doesn't hold them.
func (c *call) begin(status int) {
	c.status = status
	c.setHeaders()
	c.response.WriteHeader(status)
}

// setHeaders sets the headers of every answer.
func (c *call) setHeaders() {
	header := c.response.Header()
	header[headerRequestID] = []string{c.id}
	setSafetyHeaders(header)
	c.closeIfLast()
}

// setSafetyHeaders keeps browsers and caches from keeping an answer, and from taking it for another media type.
func setSafetyHeaders(header http.Header) {
	header[headerCacheControl] = noStore
	header[headerSniffing] = noSniffing
}

// closeIfLast tells the client not to use the connection again, where the server drains or the connection is beyond the
// limit: net/http sends GOAWAY on HTTP/2 instead of the header.
func (c *call) closeIfLast() {
	if c.reserved || c.route.server.draining.Load() {
		c.response.Header()[headerConnection] = lastAnswer
	}
}

// param gives the i-th parameter of the path, unescaped.
func (c *call) param(i int) string {
	value := c.params[i]
	if c.request.URL.RawPath == "" {
		return value // net/http has unescaped the path, and nothing was lost by it
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return value // can't be, net/http has checked the escapes; and no name has a percent sign
	}
	return plain
}

// write answers with a body of a media type, and ends it with a line, for people at a terminal.
func (c *call) write(status int, mediaType []string, body []byte) error {
	body = append(body, '\n')
	header := c.response.Header()
	header[headerContentType] = mediaType
	if len(body) >= unknownLengthBytes {
		header[headerContentLength] = []string{strconv.Itoa(len(body))}
	}
	c.begin(status)
	if _, err := c.response.Write(body); err != nil {
		c.err = fmt.Errorf("write the answer: %w", err) // the client has gone: there is nobody to answer
	}
	return nil
}

// unknownLengthBytes is how long a body must be for net/http not to count it by itself.
const unknownLengthBytes = 2048

// json answers with a body.
func (c *call) json(status int, body []byte) error { return c.write(status, contentJSON, body) }

// value answers with the JSON of v, by reflection.
func (c *call) value(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return c.json(status, body)
}

// noContent answers 204.
func (c *call) noContent() error {
	c.begin(http.StatusNoContent)
	return nil
}

// statusClientGone stands, in metrics and log only, for a request whose client had gone before its answer.
const statusClientGone = 499

// outcome is the status for metrics and log.
func (c *call) outcome() int {
	if c.status != http.StatusInternalServerError && c.request.Context().Err() != nil {
		return statusClientGone
	}
	return c.status
}

func (c *call) log(elapsed time.Duration) {
	level, status := slog.LevelDebug, c.outcome()
	switch {
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case status == http.StatusNotImplemented: // the client's mistake
	case status > http.StatusInternalServerError && !c.reserved: // that there are too many connections is logged once
		level = slog.LevelWarn
	}
	ctx, log := c.request.Context(), c.route.server.log
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("requestId", c.id), slog.String("method", c.request.Method), slog.String("path", c.request.URL.EscapedPath()),
		slog.Int("status", status), slog.Duration("elapsed", elapsed), slog.String("client", c.request.RemoteAddr),
	}
	if c.err != nil {
		attrs = append(attrs, slog.Any("error", c.err))
	}
	log.LogAttrs(ctx, level, "request", attrs...)
}
