package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Handler answers a call, or returns the error to answer it with.
type Handler func(*Call) error

// Query defines the handling of query parameters that a handler doesn't read.
type Query int

// What a route does with query parameters.
const (
	QueryRefused Query = iota // the route has none
	QueryRead                 // the handler reads the query, and refuses unknown parameters
	QueryIgnored
)

// Route is one method of one path: its handler, and the permission that a client needs.
type Route struct {
	Method string
	Path   string // parameters have the form :name; any other colon is escaped as \:
	Query  Query

	Action access.Action               // required action; empty only if the route is Open
	Of     func(*Call) access.Resource // resource of the action; nil: any
	InBody bool                        // the resource is in the body: the handler checks it, by Call.Allow
	// Named calls allow with the channels that the query names, until it returns false, and reports whether there are any
	// and it never did: it is for a route without Of, whose client's credential may then be in the query. nil: it may not.
	Named func(c *Call, allow func(channel string) bool) bool
	// Socket is set if the answer is a WebSocket: its client may send a credential later, in any case by the query, and
	// pages of other origins may not open it. The handler checks what each of its frames does.
	Socket bool
	Open   bool // the route is served without credentials
	// Detaches is set if the handler may call Call.Detach.
	Detaches bool
	Waits    bool // the answer may wait: the call's context ends when the client's credential or permission does
	Large    bool // the call only reads, and its answer may be large, as that of a GET
	Admin    bool // the route is served by Router.Admin only
	// Linked is set if pages of other origins may link to it: the answer is a page, the same for everybody.
	Linked bool
	Handle Handler
}

// refusable reports whether an answer of the route may be refused when it is ready, since the call has changed nothing
// or may be repeated. The others are small, or about as large as their requests.
func (r *Route) refusable() bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Waits || r.Large
}

// API is a set of routes that fail in the same way.
type API struct {
	Router *Router
	Fail   func(*Call, error) // answers with an error; see [Fail]
	Always bool               // the routes are served on connections beyond the limit too
}

// Add registers a route.
func (a API) Add(r Route) { a.Router.add(a, r) }

// AddGet registers a GET and, with the same handler, a HEAD: net/http omits its body.
func (a API) AddGet(r Route) {
	r.Method = http.MethodGet
	a.Add(r)
	r.Method = http.MethodHead
	a.Add(r)
}

// NothingBelow makes longer paths than this one, which ends with a parameter, unknown. Without it echo takes the rest
// of a longer path as part of the parameter.
func (a API) NothingBelow(path string) {
	a.Router.public.echo.RouteNotFound(path+"/*", echo.NotFoundHandler)
	a.Router.admin.echo.RouteNotFound(path+"/*", echo.NotFoundHandler)
}

// Channel returns the channel that is the first parameter of a path.
func Channel(c *Call) access.Resource { return access.Resource{Channel: c.Param(0)} }

// Subscriber returns the subscriber that is the second parameter of a path, and its channel, the first one.
func Subscriber(c *Call) access.Resource {
	return access.Resource{Channel: c.Param(0), Subscriber: c.Param(1)}
}

// route is a registered Route.
type route struct {
	Route
	router  *Router
	origins *origins
	fail    func(*Call, error)
	always  bool
	metrics *routeMetrics
	named   string // method and path, the name of its spans; empty for requests without a route
}

// serve serves a request. It answers errors itself and so returns none.
func (r *route) serve(ec echo.Context) error {
	c := newCall(r, ec.Response().Writer, ec.Request(), ec.ParamValues())
	defer c.finish()
	if err := c.handle(); err != nil {
		c.err = err
		c.challenge(err)
		r.fail(c, err)
	}
	return nil
}

// check refuses requests that are malformed for every route.
func (c *Call) check() error {
	if c.reserved && !c.route.always {
		c.route.router.CountRefused()
		return ErrConnections
	}
	if err := c.route.origins.check(c.request, &c.route.Route, c.principal != nil); err != nil {
		return err
	}
	if err := c.admit(); err != nil {
		return err
	}
	if err := c.use(); err != nil {
		return err
	}
	if c.route.Query == QueryRefused && c.request.URL.RawQuery != "" {
		return &wire.InputError{Slug: fault.SlugInvalidQuery, Detail: "this call has no query parameters", Offset: -1}
	}
	return nil
}

// finish is deferred: it turns a panic into an answer, returns the memory of body and answer, counts and logs.
func (c *Call) finish() {
	if c.conn != nil { // the call is detached: another goroutine finishes it
		return
	}
	if c.cancel != nil {
		c.unlink()
		c.cancel(context.Canceled)
	}
	c.share.EndTurn()
	c.share.Release()
	c.releaseConnection()
	if p := recover(); p != nil {
		c.panicked(p)
	}
	c.count()
	if c.cut != nil {
		panic(http.ErrAbortHandler) // the client must not take a part of the answer for all of it
	}
}

// releaseConnection returns the memory of the answer, and ends the use of the connection.
func (c *Call) releaseConnection() {
	c.unsent.Close()
	if c.admitted {
		c.place.End()
	}
}

// count counts and logs the call, and ends its span.
func (c *Call) count() {
	if c.cut != nil { // whatever status was sent
		c.status, c.err = http.StatusServiceUnavailable, c.cut
	}
	elapsed := time.Since(c.started)
	c.route.metrics.observe(c.ctx, c.outcome(), elapsed)
	c.log(elapsed)
	c.EndSpan()
}

// panicked answers 500. If the answer has begun, or the handler asked for it, it breaks the connection instead: the
// client must not take a part of an answer for all of it.
func (c *Call) panicked(p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	c.LogPanic(p)
	if c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.err = ErrPanic
	c.route.fail(c, ErrPanic)
}

// LogPanic logs a panic with the stack of the calling goroutine.
func (c *Call) LogPanic(p any) { c.route.router.LogPanic(c.id[0], p) }

// LogPanic logs a panic in the work for the request with an ID, with the stack of the calling goroutine.
func (r *Router) LogPanic(id string, p any) { logPanic(r.log.Logger, id, p) }

func logPanic(log *slog.Logger, id string, p any) {
	log.Error("panic in a handler", "requestId", id, "panic", p, "stack", string(debug.Stack()))
}
