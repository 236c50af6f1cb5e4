package rpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/tidemark-dev/tidemark/internal/grpcserver"
	"github.com/tidemark-dev/tidemark/internal/places"
	"github.com/tidemark-dev/tidemark/internal/unsent"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// ServerOptions configures a server. Handler is required.
type ServerOptions struct {
	Handler shard.Handler // answers calls. It must return when its context ends.
	Ready   func() error  // whether the handler can answer, for health checks; nil: always
	TLS     *tls.Config   // nil: without TLS. It must have the protocol h2.
	Token   string        // that calls must have; "": none
	Limits  Limits
	Logger  *slog.Logger // nil: nothing is logged
}

// Server answers calls for a node, and serves health checks and reflection. All methods may be called by several
// goroutines.
type Server struct {
	handler shard.Handler
	limits  Limits
	tls     *tls.Config // or nil
	log     *slog.Logger
	served  func() *grpcserver.Server // made when it is first needed, since it starts goroutines

	hasToken bool          // calls need one
	open     *places.Limit // of connections
	gets     calls         // of Get
	watches  calls         // of health
	others   calls         // all other calls
	memory   *semaphore.Weighted
	answers  *unsent.Budget
	turns    chan struct{} // one of each call that is handled
	drained  chan struct{} // closed when the server drains
	drain    func()        // closes it
}

var (
	errSlow     = status.Error(codes.DeadlineExceeded, "the request took too long to arrive")
	errDraining = status.Error(codes.Unavailable, "the node stops")
)

// checkedNames are the services that health checks know. The empty one is the whole server.
var checkedNames = []string{"", shardpb.ShardService_ServiceDesc.ServiceName}

const healthPeriod = time.Second // between two checks of a watch

// NewServer returns a server.
func NewServer(o ServerOptions) *Server {
	limits := o.Limits.withDefaults()
	s := &Server{
		hasToken: o.Token != "", open: places.New(limits.Connections, nil, nil),
		handler: o.Handler, limits: limits, tls: o.TLS, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		memory: semaphore.NewWeighted(limits.Memory), answers: unsent.New(limits.Answers),
		turns:   make(chan struct{}, limits.Handlers),
		drained: make(chan struct{}),
	}
	s.gets.limit, s.watches.limit, s.others.limit = int64(limits.Calls), maxWatches, maxOthers
	s.gets.arrivals = &grpcserver.Arrivals{
		Limit: limits.CallTime, Slow: arrivalSlow, MaxSlow: int(limits.Memory / int64(limits.MessageBytes)), Err: errSlow,
	}
	s.others.arrivals = &grpcserver.Arrivals{Limit: otherSlow, Slow: arrivalSlow, MaxSlow: maxOthers, Err: errSlow}
	s.watches.arrivals = s.others.arrivals
	s.drain = sync.OnceFunc(func() { close(s.drained) })
	s.served = sync.OnceValue(func() *grpcserver.Server { return grpcserver.New(s.server(o)) })
	return s
}

func (s *Server) server(o ServerOptions) *grpc.Server {
	served := grpc.NewServer(append(s.limits.options(),
		grpc.Creds(insecure.NewCredentials()), // Serve has the TLS
		grpc.ForceServerCodecV2(grpcserver.Codec()), grpc.InTapHandle(admit(o.Token)),
		grpc.StreamInterceptor(s.limitStreams),
	)...)
	ready := o.Ready
	if ready == nil {
		ready = func() error { return nil }
	}
	s.gets.answer = s.countAnswer
	served.RegisterService(grpcserver.SendAnswers(s.gets.around(&shardpb.ShardService_ServiceDesc)), service{server: s})
	served.RegisterService(s.others.around(&grpc_health_v1.Health_ServiceDesc), &grpcserver.Health{
		Names: checkedNames, Ready: func(context.Context) error { return ready() },
		Draining: func() <-chan struct{} { return s.drained }, Stopping: errDraining, Period: healthPeriod,
	})
	reflection.Register(served)
	return served
}

// admit returns a tap that refuses calls without the token, before anything else of them is read. Health checks need
// none: probes can't have one.
func admit(token string) tap.ServerInHandle {
	if token == "" {
		return grpcserver.Endable
	}
	want := sha256.Sum256([]byte(token))
	return func(ctx context.Context, call *tap.Info) (context.Context, error) {
		isHealth := strings.HasPrefix(call.FullMethodName, "/"+grpc_health_v1.Health_ServiceDesc.ServiceName+"/")
		if !isHealth && !hasToken(call.Header, want) {
			return ctx, errNoToken
		}
		return grpcserver.Endable(ctx, call)
	}
}

// ErrCutOff is returned by Drain if calls were in progress when its context ended. They were cut off.
var ErrCutOff = errors.New("calls were cut off")

// Serve serves calls on connections of l until Drain is called. It must be called at most once.
func (s *Server) Serve(l net.Listener) error {
	if s.tls != nil {
		l = tls.NewListener(l, s.tls)
	}
	return s.served().Serve(&places.Listener{Listener: l, Limit: s.open})
}

// Drain makes health checks report that the node doesn't serve, closes the listener, tells clients to use other
// connections, and returns when no call is in progress. When ctx ends it closes all connections, and returns an error
// that is ErrCutOff.
func (s *Server) Drain(ctx context.Context) error {
	s.drain()
	if !s.served().Drain(ctx) {
		return ErrCutOff
	}
	return nil
}
