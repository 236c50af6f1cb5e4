package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/admin"
	"github.com/tidemark-dev/tidemark/internal/api/durable"
	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	"github.com/tidemark-dev/tidemark/internal/api/predecessor"
	"github.com/tidemark-dev/tidemark/internal/api/records"
	"github.com/tidemark-dev/tidemark/internal/api/streams"
	v1 "github.com/tidemark-dev/tidemark/internal/api/v1"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/simulation"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/internal/tracing"
	"github.com/tidemark-dev/tidemark/storage"
)

// Defaults of Options.
const (
	DefaultMaxBodyBytes   int64 = 1 << 20
	DefaultBodyMemory     int64 = 64 << 20
	DefaultMaxStreams           = 250
	DefaultIdleTimeout          = 2 * time.Minute
	DefaultGrace                = 15 * time.Second
	DefaultCORSMaxAge           = web.DefaultCORSMaxAge
	DefaultDurableStreams       = durable.DefaultPrefix
)

// CORS lists the origins whose web pages may use the API from a browser.
type CORS = web.CORS

// Options configures a Server. Service, Storage, Ready and Logger are required.
type Options struct {
	Service         *channel.Service
	Storage         func() storage.Description // shown by GET /v1/info
	StorageWarnings []string                   // what to change about it, in whole sentences, for GET /v1/info
	// Differences returns the differences from the configurations of other servers, for GET /v1/info; nil: there are none
	Differences func() client.Differences
	Ready       func(ctx context.Context) error // reports whether Redis and notifications work, for the readiness probes
	Guard       *access.Guard                   // authorizes requests; nil: the service is open

	Matchmaking Matchmaking      // nil: there are no calls for tickets and queues
	Fetcher     Fetcher          // required with Matchmaking
	Records     *records.Options // nil: there are no calls for records
	Keys        admin.Registry   // nil: there are no calls for API keys and revocations
	Reload      admin.Reload     // nil: there is no call to reload the configuration
	// Configuration shows the options in force; nil: there is no call for them
	Configuration admin.Configuration
	Status        admin.Status   // nil: there are no calls for the state of servers and of Redis
	Survey        *keyspace.Job  // nil: there are no calls for a survey of keys
	Shards        admin.Shards   // nil: there is no call for the shards of caches
	SlowLogs      admin.SlowLogs // nil: there is no call for the slow logs of Redis
	Reserved      []string       // prefixes of channels that clients can't use, besides those of tickets
	Clients       Clients

	Version string
	CORS    CORS
	// AllowHosts are the host names that requests may have, in lower case and without a port; *.example.com matches all
	// names below example.com. IP addresses, localhost and an empty name are always allowed. If it is empty no other name
	// is allowed on an open service and by listeners on a loopback address, and otherwise every name.
	AllowHosts []string
	OldPrefix  string // of the paths of the predecessor's API
	// DurableStreams is the prefix of the paths of the Durable Streams protocol, with a slash at its end, such as
	// DefaultDurableStreams; "": it isn't served.
	DurableStreams string
	Limits         Limits
	Grace          time.Duration // time for requests to finish after Run's context has ended; 0: DefaultGrace
	// DrainDelay is how long Run serves as before after readiness has failed, for load balancers to notice. It is part
	// of Grace.
	DrainDelay time.Duration
	OnDrain    func(drains bool) // called after Drain and Resume have changed something; nil: nothing is
	Logger     *slog.Logger
	Metrics    *prometheus.Registry // has the metrics, which the admin listener shows; nil: a new one
	Tracer     *tracing.Tracer      // nil: no request is traced
}

// Limits are the limits of the server.
type Limits struct {
	MaxBodyBytes int64 // of a request; 0: DefaultMaxBodyBytes
	BodyMemory   int64 // of the bodies of all requests in progress; 0: DefaultBodyMemory
	AnswerMemory int64 // of all answers that clients have not read; 0: web.DefaultAnswerMemory
	MaxStreams   int   // open at a time on one HTTP/2 connection; 0: DefaultMaxStreams
	MaxGRPCBytes int   // of a message in a gRPC call; 0: grpc.DefaultMessageBytes
	QueryPage    int   // tickets in one message of QueryService's answers; 0: grpc.DefaultQueryPage
	// MaxConnections is how many connections Run serves at a time; 0: no limit. Beyond it a connection gives way that
	// isn't in use; if all are, a few more are served probes only. The admin listener has a limit of its own.
	MaxConnections int
	// IdleTimeout is how long a connection without a request stays open; 0: DefaultIdleTimeout.
	IdleTimeout time.Duration
	// StreamAge is how old a stream of messages may become; 0: streams.DefaultAge.
	StreamAge time.Duration
	// SocketPatience is how long a WebSocket waits for a credential; 0: streams.DefaultPatience.
	SocketPatience time.Duration
}

// Clients configures the limits of each client, and how to determine its address.
type Clients struct {
	Limits       limits.Options // Refused is set by New; an open service has those of addresses only
	TrustProxies []netip.Prefix // whose X-Forwarded-For is trusted
}

// limiter returns the limits of clients.
func (o Options) limiter() *limits.Limiter {
	o.Clients.Limits.Refused = countLimited(o.Metrics)
	return limits.New(o.Clients.Limits)
}

// Server answers HTTP requests. All methods except Run may be called by several goroutines.
type Server struct {
	service     *channel.Service
	options     Options
	log         *slog.Logger
	router      *web.Router
	limiter     *limits.Limiter
	services    *grpc.Services // nil: there is no matchmaking
	sockets     *streams.Sockets
	console     atomic.Pointer[string] // URL; set by Run. Handlers may be called before
	connections connections
	admin       connections // of the admin listener
	drainChange sync.Mutex  // held while a drain begins or ends

	listening sync.Mutex
	listeners []*limitedListener // Run's, without the admin listener
}

// New returns a server. It registers its metrics, and those of the process and of Go, in the registry, so it must be
// called once per registry.
func New(o Options) *Server {
	o = withDefaults(o)
	o.CORS.RequestHeaders = slices.Concat(grpc.RequestHeaders, streams.RequestHeaders, durable.RequestHeaders)
	o.CORS.ResponseHeaders = slices.Concat(grpc.ResponseHeaders, durable.ResponseHeaders)
	s := &Server{service: o.Service, options: o, log: o.Logger}
	s.limiter = o.limiter()
	s.router = web.New(web.Options{
		Logger: o.Logger, Metrics: o.Metrics, Ready: o.Ready, Guard: o.Guard, Limiter: s.limiter,
		TrustProxies: o.Clients.TrustProxies, Tracer: o.Tracer, CORS: o.CORS, AllowHosts: o.AllowHosts,
		MaxBodyBytes: o.Limits.MaxBodyBytes, BodyMemory: o.Limits.BodyMemory, AnswerMemory: o.Limits.AnswerMemory,
		ReadTimeout: s.readTimeout(),
	})
	flooded := countFloods(o.Metrics)
	for c, limit := range map[*connections]int{&s.connections: o.Limits.MaxConnections, &s.admin: adminConnections} {
		c.limitTo(limit, o.Clients.TrustProxies)
		c.refused, c.log = s.router.CountRefused, o.Logger
		c.streams, c.flooded = o.Limits.MaxStreams, flooded
		c.full.Interval, c.floods.Interval = fullLogPause, fullLogPause
	}
	s.addRoutes()
	s.registerMetrics(o.Metrics)
	return s
}

// slowMessages returns how many gRPC messages fit into the memory of bodies.
func (o Options) slowMessages() int {
	return max(1, int(o.Limits.BodyMemory)/cmp.Or(o.Limits.MaxGRPCBytes, grpc.DefaultMessageBytes))
}

func withDefaults(o Options) Options {
	if o.Limits.MaxBodyBytes == 0 {
		o.Limits.MaxBodyBytes = DefaultMaxBodyBytes
	}
	if o.Limits.BodyMemory == 0 {
		o.Limits.BodyMemory = DefaultBodyMemory
	}
	if o.Limits.MaxStreams == 0 {
		o.Limits.MaxStreams = DefaultMaxStreams
	}
	if o.Limits.IdleTimeout == 0 {
		o.Limits.IdleTimeout = DefaultIdleTimeout
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	return o
}

// consoleURL returns the URL of the console, or nothing before Run has set it.
func (s *Server) consoleURL() string {
	if url := s.console.Load(); url != nil {
		return *url
	}
	return ""
}

func (s *Server) addRoutes() {
	o, who := s.options, "open"
	if o.Guard != nil {
		who = "credentials"
	}
	c := &channels{service: s.service, streams: s.service, lives: s.service, counts: newMessageCounts(o.Metrics)}
	c.reserved.service = o.Reserved
	api := v1.Options{
		Channels: c, Console: s.consoleURL, Info: v1.Info{
			Version: o.Version, Access: who, Storage: o.Storage, Warnings: o.StorageWarnings, Limits: s.service.Limits,
			Differences: o.Differences,
		},
	}
	if m := o.Matchmaking; m != nil {
		c.players, c.reserved.written = newPlayers(m, o.Guard), []string{matchmaking.ChannelPrefix}
		directs := &directing{m, o.Fetcher}
		made := &tickets{m, new(simulation.Recorder)}
		api.Tickets, api.Queues, api.Recorder = made, m, made.recorder
		s.services = grpc.New(grpc.Options{
			Router: s.router, Tickets: made, Queues: m, Backfills: directs, Director: directs,
			Limits: grpc.Limits{MessageBytes: o.Limits.MaxGRPCBytes, SlowMessages: o.slowMessages(),
				Streams: o.Limits.MaxStreams, QueryPage: o.Limits.QueryPage},
		})
		s.services.AddRoutes()
	}
	v1.Register(s.router, api)
	streams.Register(s.router, streams.Options{Streams: c, Age: o.Limits.StreamAge, Metrics: o.Metrics})
	if o.DurableStreams != "" {
		durable.Register(s.router, durable.Options{Channels: c, Limits: s.service.Limits, Prefix: o.DurableStreams,
			Metrics: o.Metrics})
	}
	s.sockets = streams.RegisterSockets(s.router, streams.SocketOptions{Channels: c, Age: o.Limits.StreamAge,
		Patience: o.Limits.SocketPatience, Logger: o.Logger, Metrics: o.Metrics})
	predecessor.Register(s.router, predecessor.Options{Channels: c, Limits: s.service.Limits, Prefix: s.options.OldPrefix})
	if o.Records != nil {
		records.Register(s.router, *o.Records)
	}
	admin.Register(s.router, admin.Options{Metrics: o.Metrics, Keys: o.Keys,
		Channels: operations{s.service, c.reserved}, Logger: o.Logger, Reload: o.Reload, Drain: s, Configuration: o.Configuration,
		Status: o.Status, Shards: o.Shards, SlowLogs: o.SlowLogs, Recent: true, Console: true, Limiter: s.limiter, Survey: o.Survey})
	web.RegisterProbes(s.router)
}

// SetLimits replaces the limits of clients, also of those with an open WebSocket. Counting starts again.
func (s *Server) SetLimits(l limits.Limits) { s.limiter.Set(l) }

// Handler returns the API of the public listener. It doesn't need Run.
func (s *Server) Handler() http.Handler { return s.router }

// AdminHandler returns the API of the admin listener. It doesn't need Run.
func (s *Server) AdminHandler() http.Handler { return s.router.Admin() }
