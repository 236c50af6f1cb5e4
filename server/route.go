package server

import (
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// route is one method of one path.
type route struct {
	server  *Server
	handle  func(*call) error
	fail    func(*call, error) // answers with an error
	query   queryRule
	always  bool // it is served on connections beyond the limit too
	metrics *routeMetrics
}

// queryRule says what becomes of query parameters that a route doesn't read.
type queryRule int

const (
	queryRefused queryRule = iota // the route has none
	queryRead                     // the handler reads the query, and refuses what it doesn't know
	queryIgnored
)

// api adds routes that fail in the same way.
type api struct {
	server *Server
	fail   func(*call, error)
	always bool // as in route
}

func (a api) add(method, path string, query queryRule, handle func(*call) error) {
	s := a.server
	r := &route{server: s, handle: handle, fail: a.fail, query: query, always: a.always, metrics: s.metrics.route(path, method)}
	s.echo.Add(method, path, r.serve)
}

// addGet adds a GET and, with the same handler, a HEAD: net/http leaves its body out.
func (a api) addGet(path string, query queryRule, handle func(*call) error) {
	a.add(http.MethodGet, path, query, handle)
	a.add(http.MethodHead, path, query, handle)
}

func (s *Server) addRoutes() {
	v1 := api{server: s, fail: failWithProblem}
	v1.add(http.MethodPost, "/v1/channels/:channel/messages", queryRefused, s.unreserved(s.publish))
	v1.add(http.MethodPut, "/v1/channels/:channel/messages/:id", queryRefused, s.unreserved(s.putMessage))
	v1.add(http.MethodPut, "/v1/channels/:channel/subscribers/:subscriber", queryRefused, s.unreserved(s.subscribe))
	v1.add(http.MethodDelete, "/v1/channels/:channel/subscribers/:subscriber", queryRefused, s.unreserved(s.unsubscribe))
	v1.add(http.MethodGet, "/v1/channels/:channel/subscribers/:subscriber/messages", queryRead, s.fetch)
	v1.add(http.MethodPost, "/v1/channels/:channel/subscribers/:subscriber/ack", queryRefused, s.ack)
	v1.add(http.MethodPost, "/v1/channels/:channel/subscribers/:subscriber/next", queryRefused, s.next)
	v1.addGet("/v1/channels/:channel", queryRead, s.describe)
	v1.addGet("/v1/info", queryRefused, s.info)
	probes := api{server: s, fail: failWithProblem, always: true}
	probes.addGet("/livez", queryIgnored, s.live)
	probes.addGet("/readyz", queryIgnored, s.ready)
	probes.addGet("/metrics", queryIgnored, s.showMetrics)
	if s.matches != nil {
		s.addMatchmakingRoutes(v1)
		s.rpc = s.addRPC(s.matches)
	}

	old := api{server: s, fail: failAsPredecessor}
	old.add(http.MethodPut, "/channel/:channel/message/:id", queryIgnored, s.unreserved(s.oldPublish))
	old.add(http.MethodPut, "/channel/:channel/subscription/polling/:subscriber", queryIgnored, s.unreserved(s.oldSubscribe))
	old.add(http.MethodGet, "/channel/:channel/subscription/polling/:subscriber", queryIgnored, s.oldPoll)
	old.add(http.MethodDelete, "/channel/:channel/subscription/polling/:subscriber", queryIgnored, s.unreserved(s.oldUnsubscribe))
	old.add(http.MethodDelete, "/channel/:channel/subscription/polling/:subscriber/message", queryIgnored, s.oldAck)
	old.always = true
	old.addGet("/probe/liveness", queryIgnored, s.oldLive)
	old.addGet("/probe/readiness", queryIgnored, s.oldReady)

	// Where nothing is below a path that ends with a parameter, echo takes the rest of any longer path for that.
	s.echo.RouteNotFound("/v1/channels/:channel/messages/:id/*", echo.NotFoundHandler)
	s.echo.RouteNotFound("/channel/:channel/message/:id/*", echo.NotFoundHandler)

	s.stray = &route{server: s, fail: failWithProblem, query: queryIgnored, metrics: s.metrics.route("none", "any")}
}

func (s *Server) addMatchmakingRoutes(v1 api) {
	v1.add(http.MethodPost, "/v1/tickets", queryRefused, s.createTicket)
	v1.addGet("/v1/tickets/:id", queryRefused, s.showTicket)
	v1.add(http.MethodDelete, "/v1/tickets/:id", queryRefused, s.cancelTicket)
	v1.addGet("/v1/queues", queryRefused, s.listQueues)
	v1.addGet("/v1/queues/:queue", queryRefused, s.describeQueue)
	v1.add(http.MethodPut, "/v1/queues/:queue", queryRefused, s.putQueue)
	v1.add(http.MethodDelete, "/v1/queues/:queue", queryRefused, s.deleteQueue)
	s.echo.RouteNotFound("/v1/tickets/:id/*", echo.NotFoundHandler)
	s.echo.RouteNotFound("/v1/queues/:queue/*", echo.NotFoundHandler)
}

// serve is the way of every request: its ID, what all calls have in common, the handler, and then the outcome in
// metrics and log. It answers errors itself and so returns none.
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

// safeOptions is middleware for OPTIONS, which echo answers without a route.
func safeOptions(next echo.HandlerFunc) echo.HandlerFunc {
	return func(ec echo.Context) error {
		if ec.Request().Method == http.MethodOptions {
			setSafetyHeaders(ec.Response().Header())
		}
		return next(ec)
	}
}

// unrouted answers requests that echo has no route for.
func (s *Server) unrouted(err error, ec echo.Context) {
	c := newCall(s.stray, ec)
	defer c.finish()
	path := echo.GetPath(c.request)
	var he *echo.HTTPError
	switch {
	case errors.As(err, &he) && he.Code == http.StatusMethodNotAllowed:
		err = &fault.Error{Kind: fault.MethodNotAllowed, Slug: fault.SlugMethod, Detail: c.request.Method + " is not a method of this path"}
	case errors.As(err, &he) && he.Code == http.StatusNotFound:
		err = errNoPath
	}
	c.err = err
	if isGRPC(c.request) && errors.Is(err, errNoPath) {
		c.unimplemented()
		return
	}
	if strings.HasPrefix(path, "/channel/") || strings.HasPrefix(path, "/probe/") {
		failAsPredecessor(c, err)
		return
	}
	failWithProblem(c, err)
}

// check refuses what no call takes.
func (c *call) check() error {
	if c.reserved && !c.route.always {
		c.route.server.metrics.refused.Inc()
		return errConnections
	}
	if err := c.route.server.checkOrigin(c.request); err != nil {
		return err
	}
	if c.route.query == queryRefused && c.request.URL.RawQuery != "" {
		return &wire.InputError{Slug: fault.SlugInvalidQuery, Detail: "this call has no query parameters", Offset: -1}
	}
	return nil
}

// finish is deferred: it turns a panic into an answer, gives back what the body took, and puts the outcome into metrics
// and log.
func (c *call) finish() {
	c.share.release()
	if p := recover(); p != nil {
		c.panicked(p)
	}
	elapsed := time.Since(c.started)
	c.route.metrics.observe(c.outcome(), elapsed)
	c.log(elapsed)
}

// panicked answers 500. Where the answer has begun, or the handler means it so, it breaks the connection instead: the
// client must not take a part for the whole.
func (c *call) panicked(p any) {
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	c.route.server.log.Error("panic in a handler", "requestId", c.id, "panic", p, "stack", string(debug.Stack()))
	if c.status != 0 {
		panic(http.ErrAbortHandler)
	}
	c.err = errPanic
	c.route.fail(c, errPanic)
}
