package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/drain"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// Options configures a Router. All fields are required, except where their comments say otherwise.
type Options struct {
	Logger       *slog.Logger
	Metrics      *prometheus.Registry
	Ready        func(context.Context) error // reports whether the service can serve, for the readiness probes
	Guard        *access.Guard               // authorizes requests; nil: the service is open
	Limiter      *limits.Limiter             // of each client; nil: no limits
	TrustProxies []netip.Prefix              // whose X-Forwarded-For is trusted
	Tracer       *tracing.Tracer             // of requests; nil: none is traced

	CORS CORS
	// AllowHosts are the host names that requests may have, in lower case and without a port; *.example.com matches all
	// names below example.com. IP addresses, localhost and an empty name are always allowed. If it is empty no other name
	// is allowed on an open service and on loopback addresses, and otherwise every name.
	AllowHosts []string

	MaxBodyBytes int64         // of one request
	BodyMemory   int64         // of the bodies of all requests in progress
	AnswerMemory int64         // of all answers that were not read; 0: DefaultAnswerMemory
	ReadTimeout  time.Duration // for reading a request once a large body has arrived; net/http's limit for all of it
}

// DefaultAnswerMemory is the default of Options.AnswerMemory, in bytes.
const DefaultAnswerMemory = 64 << 20

// Router routes requests to handlers.
type Router struct {
	routing
	gate
	log     *requestLog
	metrics *metrics
	tracer  *tracing.Tracer // nil: no request is traced
	ready   func(context.Context) error
	bodies  bodyMemory
	answers *unsent.Budget
	// detached are calls that net/http doesn't know any more.
	detached detachedCalls

	draining *drain.State
	stopping *drain.State // it doesn't end
}

// routing is which handler a request gets.
type routing struct {
	public   view // has the routes that aren't Admin
	admin    view // has all routes
	routes   []Route
	stray    *route // stands for requests without a route
	unrouted []unrouted
}

// view is the part of the router that a listener serves.
type view struct {
	echo    *echo.Echo
	origins *origins
}

// unrouted is how requests without a route fail.
type unrouted struct {
	match func(*http.Request) bool
	fail  func(*Call, error)
}

// New returns a Router without routes. It registers its metrics in the registry, so it must be called once per
// registry.
func New(o Options) *Router {
	r := &Router{
		routing: routing{
			public: view{echo.New(), &origins{cors: o.CORS, hosts: o.AllowHosts, open: o.Guard == nil}},
			admin:  view{echo.New(), &origins{own: true, hosts: o.AllowHosts, open: o.Guard == nil}},
		},
		gate: gate{
			guard: o.Guard, failures: access.NewFailureLimiter(), limiter: o.Limiter, proxies: trust(o.TrustProxies),
		},
		log: newRequestLog(o.Logger), tracer: o.Tracer, ready: o.Ready,
		bodies: bodyMemory{
			size: o.BodyMemory, closed: o.Guard != nil, clients: map[string]int64{},
			turns: semaphore.NewWeighted(Turns()), maxBody: o.MaxBodyBytes, readTimeout: o.ReadTimeout,
		},
		detached: detachedCalls{open: map[*Call]net.Conn{}},
		answers:  unsent.New(cmp.Or(o.AnswerMemory, DefaultAnswerMemory)),
		draining: drain.New(), stopping: drain.New(),
	}
	r.metrics = newMetrics(o.Metrics, &r.bodies, r.answers)
	r.stray = &route{Route: Route{Query: QueryIgnored, Open: true}, router: r, fail: Fail,
		metrics: r.metrics.route("none", "any")}
	for _, v := range []view{r.public, r.admin} {
		v.echo.HTTPErrorHandler = r.failUnrouted
		v.echo.Use(safeOptions)
		if cors, ok := v.origins.cors.middleware(); ok {
			v.echo.Use(cors)
		}
	}
	return r
}

// ServeHTTP serves a request, except for the routes that are Admin.
func (r *Router) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.public.echo.ServeHTTP(w, request)
}

// Admin returns the handler of all routes. Web pages of other origins, Options.CORS included, can't use it.
func (r *Router) Admin() http.Handler { return r.admin.echo }

// Routes returns the registered routes.
func (r *Router) Routes() []Route { return slices.Clone(r.routes) }

func (r *Router) add(a API, declared Route) {
	metrics := r.metrics.route(strings.ReplaceAll(declared.Path, `\:`, ":"), declared.Method)
	r.routes = append(r.routes, declared)
	for _, v := range []view{r.public, r.admin} {
		if declared.Admin && v == r.public {
			continue
		}
		made := &route{Route: declared, router: r, origins: v.origins, fail: a.Fail, always: a.Always, metrics: metrics,
			named: declared.Method + " " + metrics.route}
		v.echo.Add(declared.Method, declared.Path, made.serve)
	}
}

// MaxBodyBytes returns the largest body that a request may have.
func (r *Router) MaxBodyBytes() int64 { return r.bodies.maxBody }

// BodyBytes returns how much memory the bodies of requests in progress take.
func (r *Router) BodyBytes() int64 { return r.bodies.used.Load() }

// Tracer returns the tracer of requests, or nil.
func (r *Router) Tracer() *tracing.Tracer { return r.tracer }

// Answers returns the memory of all answers that were not read.
func (r *Router) Answers() *unsent.Budget { return r.answers }

// onLoopback is the context key of connections of a listener on a loopback address.
type onLoopback struct{}

// BaseContext returns the http.Server.BaseContext of servers whose requests a Router serves. On a loopback address
// these have no host names but AllowHosts, because a web page can make a name of its own resolve to this machine.
func BaseContext(ctx context.Context) func(net.Listener) context.Context {
	return func(l net.Listener) context.Context {
		if IsLoopback(l) {
			return context.WithValue(ctx, onLoopback{}, true)
		}
		return ctx
	}
}

// IsLoopback reports whether a listener is on a loopback address.
func IsLoopback(l net.Listener) bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// CheckHost returns an error unless calls may be for a host, the authority of HTTP/2. It is for other servers than
// net/http's. loopback is set if the listener is on a loopback address.
func (r *Router) CheckHost(host string, loopback bool) error {
	return r.public.origins.checkHost(host, loopback)
}

// Refuse answers a request with an error, as one that has no route.
func (r *Router) Refuse(w http.ResponseWriter, request *http.Request, err *fault.Error) {
	r.failStray(w, request, func() error { return err })
}

// Drain sends clients to other servers: readiness fails, and each connection is closed after its next answer. It may be
// called more than once.
func (r *Router) Drain() { r.draining.Begin() }

// Resume ends what Drain has begun.
func (r *Router) Resume() { r.draining.End() }

// Stop is Drain for good, at the end of the service.
func (r *Router) Stop() {
	r.stopping.Begin()
	r.draining.Begin()
}

// Draining returns a channel that is closed once the service drains. After Resume it is another one.
func (r *Router) Draining() <-chan struct{} { return r.draining.Begun() }

// Stopping is closed once Stop has been called.
func (r *Router) Stopping() <-chan struct{} { return r.stopping.Begun() }

// IsStopping reports whether Stop has been called.
func (r *Router) IsStopping() bool { return r.stopping.IsBegun() }

// IsDraining reports whether the service drains.
func (r *Router) IsDraining() bool { return r.draining.IsBegun() }

// DrainError returns the error of what isn't served while the service drains.
func (r *Router) DrainError() error {
	if r.IsStopping() {
		return ErrDraining
	}
	return ErrDrained
}

// readyTimeout is how long a readiness probe waits for the service.
const readyTimeout = 5 * time.Second

// Ready reports whether requests can be served and the service isn't draining. The error is a *fault.Error of kind
// Unavailable, ErrDraining or ErrDrained.
func (r *Router) Ready(ctx context.Context) error {
	if r.IsDraining() {
		return r.DrainError()
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	err := r.ready(ctx)
	var e *fault.Error
	if err == nil || errors.As(err, &e) && e.Kind == fault.Unavailable {
		return err
	}
	return fault.ErrUnavailable.WithCause(err)
}

// FailUnrouted makes fail answer requests that have no route and that match accepts. The others get a problem.
func (r *Router) FailUnrouted(match func(*http.Request) bool, fail func(*Call, error)) {
	r.unrouted = append(r.unrouted, unrouted{match: match, fail: fail})
}

// failUnrouted answers requests for which echo has no route.
func (r *Router) failUnrouted(err error, ec echo.Context) {
	request := ec.Request()
	r.failStray(ec.Response().Writer, request, func() error {
		if _, limited := r.Count(request.Context(), nil, request.RemoteAddr); limited != nil {
			return limited
		}
		var he *echo.HTTPError
		if errors.As(err, &he) && (he.Code == http.StatusMethodNotAllowed || he.Code == http.StatusNotFound) {
			return r.noRoute(ec)
		}
		return err
	})
}

// failStray answers a request without a route with an error, which a function returns.
func (r *Router) failStray(w http.ResponseWriter, request *http.Request, find func() error) {
	c := newCall(r.stray, w, request, nil)
	defer c.finish()
	err := find()
	c.err = err
	for _, u := range r.unrouted {
		if u.match(c.request) {
			u.fail(c, err)
			return
		}
	}
	Fail(c, err)
}

// methods are those that routes have.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// noRoute returns the error of a request without a route: its listener has the path with other methods, which the
// answer's header Allow names, or only the admin listener has it, or none.
func (r *Router) noRoute(ec echo.Context) *fault.Error {
	wanted := ec.Request().Method
	allowed, admin := []string{http.MethodOptions}, false
	adminHasMethod := false
	for _, method := range methods {
		switch route, found := r.find(method, ec.Request()); {
		case !found:
		case route.Admin && ec.Echo() == r.public.echo:
			admin, adminHasMethod = true, adminHasMethod || method == wanted
		default:
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 1 {
		ec.Response().Header().Set("Allow", strings.Join(allowed, ", "))
		e := &fault.Error{Kind: fault.MethodNotAllowed, Slug: fault.SlugMethod,
			Detail: fmt.Sprintf("this path doesn't have the method %s: use %s", wanted, strings.Join(allowed[1:], ", "))}
		if adminHasMethod {
			return OnlyAdmin(e)
		}
		return e
	}
	if admin {
		return OnlyAdmin(ErrNoPath)
	}
	isPublic := ec.Echo() == r.public.echo
	return r.noPath(ec.Request().URL.Path, func(route *Route) bool { return !isPublic || !route.Admin })
}

// find returns the route that the admin listener, which has all of them, has for a method and the path of a request.
func (r *Router) find(method string, request *http.Request) (route Route, found bool) {
	ec := r.admin.echo.NewContext(request, nil)
	r.admin.echo.Router().Find(method, echo.GetPath(request), ec)
	i := slices.IndexFunc(r.routes, func(route Route) bool { return route.Method == method && route.Path == ec.Path() })
	if i < 0 {
		return Route{}, false
	}
	return r.routes[i], true
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
