package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

// Defaults of Options.
const (
	DefaultMaxBodyBytes int64 = 1 << 20
	DefaultBodyMemory   int64 = 64 << 20
	DefaultMaxStreams         = 250
	DefaultGrace              = 15 * time.Second
)

// Options is what a Server is made of. Service, Storage, Ready and Logger are needed.
type Options struct {
	Service *channel.Service
	Storage func() channel.Storage          // what GET /v1/info tells
	Ready   func(ctx context.Context) error // whether Redis and the notification path answer, for the readiness probes

	Matchmaking *service.Service // nil: there are no calls for tickets and queues

	Version string
	CORS    CORS
	// AllowHosts are the host names that requests may have, in lower case and without a port; *.example.com stands for
	// all below example.com. IP addresses, localhost and an empty name are allowed too. None: any name is, but only
	// these where Run's listener is on a loopback address.
	AllowHosts   []string
	MaxBodyBytes int64 // of a request; 0: DefaultMaxBodyBytes
	BodyMemory   int64 // of all bodies of requests that are under way; 0: DefaultBodyMemory
	MaxStreams   int   // open at a time on one HTTP/2 connection; 0: DefaultMaxStreams
	// MaxConnections is how many connections Run serves at a time; 0: no limit. A few more are served the probes and the
	// metrics only.
	MaxConnections int
	Grace          time.Duration // how long Run lets requests finish after its context has ended; 0: DefaultGrace
	// DrainDelay is how long Run serves as before after readiness has turned 503, for load balancers to notice. It is part
	// of Grace.
	DrainDelay time.Duration
	Logger     *slog.Logger
	Metrics    *prometheus.Registry // where the server's metrics are registered and what /metrics shows; nil: a new one
}

// Server answers HTTP requests. All methods but Run may be called by many goroutines.
type Server struct {
	service *channel.Service
	matches *service.Service // nil: no matchmaking
	rpc     *rpc             // nil: no matchmaking
	options Options
	log     *slog.Logger
	echo    *echo.Echo
	metrics *metrics
	stray   *route // stands for requests that no route is for
	bodies  *bodyMemory

	listener    atomic.Pointer[limitedListener] // Run's
	crossOrigin http.CrossOriginProtection
	loopback    atomic.Bool // Run's listener is on a loopback address
	draining    atomic.Bool
}

// New makes a server. It registers its metrics, and those of the process and of Go, in the registry, and so must be
// called once for a registry.
func New(o Options) *Server {
	if o.MaxBodyBytes == 0 {
		o.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if o.BodyMemory == 0 {
		o.BodyMemory = DefaultBodyMemory
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = DefaultMaxStreams
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	s := &Server{service: o.Service, matches: o.Matchmaking, options: o, log: o.Logger, echo: echo.New(),
		bodies: &bodyMemory{free: semaphore.NewWeighted(o.BodyMemory)},
	}
	s.metrics = newMetrics(o.Metrics, s)
	s.echo.HTTPErrorHandler = s.unrouted
	s.echo.Use(safeOptions)
	if cors, ok := o.CORS.middleware(); ok {
		s.echo.Use(cors)
	}
	s.addRoutes()
	return s
}

// Handler gives the whole API. It doesn't need Run.
func (s *Server) Handler() http.Handler { return s.echo }
