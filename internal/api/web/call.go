package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/places"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// Call is one request and its answer. It is used by one goroutine at a time, except for Cancel.
type Call struct {
	route     *route
	ctx       context.Context //nolint:containedctx // of the request, with its principal; it may outlive that: see Detach
	request   *http.Request
	response  http.ResponseWriter
	params    []string          // of the path, as they were sent
	place     *places.Place     // of the connection; nil: it has none
	reserved  bool              // all places are in use, and the connection has none
	admitted  bool              // the connection is in use by the call
	inQuery   bool              // the client's credential was in the query
	release   func()            // of the hold of a call that waits; nil: there is none
	id        [1]string         // of the request, as the value of a header
	principal *access.Principal // nil: not known yet, or the service is open
	started   time.Time
	span      tracing.Span
	share     share        // of the memory of all bodies
	bodyRead  bool         // a part of the body was read, or all of it
	unsent    unsent.Part  // of the memory of all answers; a granted answer has another while it is written
	granted   bool         // the answer is counted but never refused: see unsent.Budget.Granted
	writer    answerWriter // response
	cut       error        // a part of the answer was refused
	status    int          // of the answer; 0: the answer hasn't begun
	err       error        // the error, for the log
	caching   []string     // see SetCaching
	detachable
}

// reservedKey is the context key of requests on reserved connections.
type reservedKey struct{}

// WithReserved returns the context of a connection for which there is no place. Its requests are refused, except for
// routes that are always served, and it is closed after one answer.
func WithReserved(ctx context.Context) context.Context {
	return context.WithValue(ctx, reservedKey{}, true)
}

func newCall(r *route, w http.ResponseWriter, request *http.Request, params []string) *Call {
	c := &Call{route: r, request: request, params: params, started: time.Now()}
	c.writer.ResponseWriter, c.writer.call = w, c
	c.response = &c.writer
	if at := c.request.Header[forwardedFor]; len(at) > 0 {
		c.request.RemoteAddr = r.router.Client(c.request.RemoteAddr, at)
	}
	c.ctx = c.request.Context()
	c.place = places.From(c.ctx)
	c.reserved = c.place == nil && c.ctx.Value(reservedKey{}) != nil
	c.principal = access.From(c.ctx)
	if r.Detaches && request.ProtoMajor == 1 {
		c.ctx = c.separate()
	}
	switch {
	case r.Admin: // administrators see the metrics while clients leave answers unread
	case r.refusable():
		c.unsent = r.router.answers.Part(c.client)
		c.ctx = unsent.With(c.ctx, &c.unsent)
	default:
		c.granted = true
	}
	c.beginSpan()
	c.share.call, c.share.memory = c, &r.router.bodies
	c.id[0] = RequestID(c.request.Header[headerRequestID], c.started)
	return c
}

// client returns whose share of the memory of answers the answer takes.
func (c *Call) client() string { return Client(c.Principal(), c.request.RemoteAddr) }

// Client returns a name for the principal of a request or, without a credential, for its address.
func Client(p *access.Principal, address string) string {
	if p == nil || p.Kind == access.Nobody {
		return "address:" + access.Network(address).String()
	}
	return p.Name()
}

// ID returns the ID of the request.
func (c *Call) ID() string { return c.id[0] }

// Request returns the request.
func (c *Call) Request() *http.Request { return c.request }

// Response returns the writer of the answer, for handlers that write it themselves. They call SetHeaders first.
func (c *Call) Response() http.ResponseWriter { return c.response }

// Context returns the request's context, which has its principal. It ends when the client goes away and, if the route
// waits, when the client's credential expires or is revoked, or a change of the rules takes from the client what it was
// allowed.
func (c *Call) Context() context.Context { return c.ctx }

// OnAdmin reports whether the admin listener serves the call.
func (c *Call) OnAdmin() bool { return c.route.origins.own }

// Param returns the i-th parameter of the path, unescaped.
func (c *Call) Param(i int) string {
	value := c.params[i]
	if c.request.URL.RawPath == "" {
		return value // net/http has unescaped the path, and nothing was lost
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return value // impossible: net/http has checked the escapes. And no name has a percent sign.
	}
	return plain
}

// use keeps the connection of an admitted call from giving way to others until the call ends. On the admin listener
// only calls for administrators do, so that others can't shut these out.
// Error: ErrConnections if it gave way already.
func (c *Call) use() error {
	if c.route.Open || c.Place() == nil {
		return nil
	}
	p := c.Principal()
	if c.route.Socket && p != nil && p.Kind == access.Nobody {
		return nil // its client has yet to send a credential
	}
	if !c.place.Begin(p != nil && p.Kind != access.Nobody) {
		return ErrConnections
	}
	c.admitted = true
	return nil
}

// Place returns the place of the connection, or nil if the call's client can't keep it.
func (c *Call) Place() *places.Place {
	p := c.Principal()
	if c.OnAdmin() && !c.route.Admin && (p == nil || p.Kind != access.Administrator) {
		return nil
	}
	return c.place
}

// SetOutcome sets the status and the error that metrics and log show, for handlers that write the answer themselves.
func (c *Call) SetOutcome(status int, err error) { c.status, c.err = status, err }

// Status returns the status that SetOutcome has set.
func (c *Call) Status() int { return c.status }

// StatusClientGone is the status, in metrics and log only, of a request whose client disconnected before the answer.
const StatusClientGone = 499

// outcome returns the status for metrics and log.
func (c *Call) outcome() int {
	if c.request != nil && c.status != http.StatusInternalServerError && c.request.Context().Err() != nil {
		return StatusClientGone
	}
	return c.status
}

func (c *Call) log(elapsed time.Duration) {
	ctx, log, status := c.ctx, c.route.router.log, c.outcome()
	level := log.level(status, c.err, c.reserved)
	refused := isRefusal(status, c.err)
	if !refused && !log.Enabled(ctx, level) {
		return
	}
	l := c.logged()
	l.status, l.elapsed, l.err = status, elapsed, c.err
	if refused {
		log.remember(l)
	}
	if log.Enabled(ctx, level) {
		l.write(ctx, log.Logger, level)
	}
}

// logged returns the request for the log, without its outcome.
func (c *Call) logged() logged {
	if c.requestLog != nil {
		return *c.requestLog
	}
	return logged{id: c.id[0], method: c.request.Method, path: c.request.URL.EscapedPath(), client: c.request.RemoteAddr,
		principal: c.Principal()}
}

// writeError is the error of an answer to a client that has disconnected.
func writeError(err error) error { return fmt.Errorf("write the answer: %w", err) }

// maxRequestIDBytes is the longest request ID that is accepted from a client.
const maxRequestIDBytes = 128

// RequestID returns the ID that a client sent if it is sane, and otherwise a new ULID.
func RequestID(sent []string, now time.Time) string {
	if len(sent) == 1 && saneRequestID(sent[0]) {
		return sent[0]
	}
	return id.At(now).String()
}

// saneRequestID reports whether an ID is short and consists of visible ASCII characters, so that it can't forge log
// lines.
func saneRequestID(id string) bool {
	if id == "" || len(id) > maxRequestIDBytes {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return false
		}
	}
	return true
}
