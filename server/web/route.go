package web

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// Handler answers a call, or returns the error to answer it with.
type Handler func(*Call) error

// Wrapper returns a handler that does something before, after or instead of next.
type Wrapper func(next Handler) Handler

// Query says what happens to query parameters that a handler doesn't read.
type Query int

// What a route does with query parameters.
const (
	QueryRefused Query = iota // the route has none
	QueryRead                 // the handler reads the query, and refuses unknown parameters
	QueryIgnored
)

// API is a set of routes that fail in the same way.
type API struct {
	Router *Router
	Fail   func(*Call, error) // answers with an error; see [Fail]
	Always bool               // the routes are served on connections beyond the limit too
}

// Add registers a route. Parameters in the path have the form :name; any other colon is escaped as \:.
func (a API) Add(method, path string, query Query, handle Handler) {
	r := &route{
		router: a.Router, handle: handle, fail: a.Fail, query: query, always: a.Always,
		metrics: a.Router.metrics.route(strings.ReplaceAll(path, `\:`, ":"), method),
	}
	a.Router.echo.Add(method, path, r.serve)
}

// AddGet registers a GET and, with the same handler, a HEAD: net/http omits its body.
func (a API) AddGet(path string, query Query, handle Handler) {
	a.Add(http.MethodGet, path, query, handle)
	a.Add(http.MethodHead, path, query, handle)
}

// NothingBelow makes longer paths than this one, which ends with a parameter, unknown. Without it echo takes the rest of
// a longer path as part of the parameter.
func (a API) NothingBelow(path string) {
	a.Router.echo.RouteNotFound(path+"/*", echo.NotFoundHandler)
}

// route is one method of one path.
type route struct {
	router  *Router
	handle  Handler
	fail    func(*Call, error)
	query   Query
	always  bool
	metrics *routeMetrics
}

// serve serves a request. It answers errors itself and so returns none.
func (r *route) serve(ec echo.Context) error {
	c := newCall(r, ec)
	defer c.finish()
	err := c.check()
	if err == nil {
		err = r.handle(c)
	}
	if err != nil {
		c.err = err
		r.fail(c, err)
	}
	return nil
}

// check refuses what no call may have.
func (c *Call) check() error {
	if c.reserved && !c.route.always {
		c.route.router.CountRefused()
		return errConnections
	}
	if err := c.route.router.origins.check(c.request); err != nil {
		return err
	}
	if c.route.query == QueryRefused && c.request.URL.RawQuery != "" {
		return &wire.InputError{Slug: fault.SlugInvalidQuery, Detail: "this call has no query parameters", Offset: -1}
	}
	return nil
}

// finish is deferred: it turns a panic into an answer, returns the memory of the body, counts and logs.
func (c *Call) finish() {
	c.share.release()
	if p := recover(); p != nil {
		c.panicked(p)
	}
	elapsed := time.Since(c.started)
	c.route.metrics.observe(c.outcome(), elapsed)
	c.log(elapsed)
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
func (c *Call) LogPanic(p any) { logPanic(c.route.router.log, c.id, p) }

func logPanic(log *slog.Logger, id string, p any) {
	log.Error("panic in a handler", "requestId", id, "panic", p, "stack", string(debug.Stack()))
}
