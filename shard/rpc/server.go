package rpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// ServerOptions configures a server. Handler is required.
type ServerOptions struct {
	Handler shard.Handler // answers calls
	Ready   func() error  // whether the handler can answer, for health checks; nil: always
	TLS     *tls.Config   // nil: without TLS. It must have the protocol h2.
	Token   string        // that calls must have; "": none
	Limits  Limits
	Logger  *slog.Logger // nil: nothing is logged
}

// Server answers calls for a node, and serves health checks and reflection. All methods may be called by several goroutines.
type Server struct {
	handler shard.Handler
	limits  Limits
	log     *slog.Logger
	served  func() *grpc.Server // made when it is first needed, since it starts goroutines

	calls   atomic.Int64 // in progress
	watches atomic.Int64 // of health
	others  atomic.Int64 // all other calls
	memory  *semaphore.Weighted
	turns   chan struct{} // one of each call that is handled
	drained chan struct{} // closed when the server drains
	drain   func()        // closes it
}

// NewServer returns a server.
func NewServer(o ServerOptions) *Server {
	limits := o.Limits.withDefaults()
	s := &Server{
		handler: o.Handler, limits: limits, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		memory: semaphore.NewWeighted(limits.Memory), turns: make(chan struct{}, limits.Handlers), drained: make(chan struct{}),
	}
	s.drain = sync.OnceFunc(func() { close(s.drained) })
	s.served = sync.OnceValue(func() *grpc.Server { return s.server(o) })
	return s
}

func (s *Server) server(o ServerOptions) *grpc.Server {
	options := append(s.limits.options(),
		grpc.Creds(handshakes{transport(o.TLS)}), grpc.ForceServerCodecV2(newCodec()), grpc.StreamInterceptor(s.intercept),
	)
	if o.Token != "" {
		options = append(options, grpc.InTapHandle(guard{hash: sha256.Sum256([]byte(o.Token))}.admit))
	}
	ready := o.Ready
	if ready == nil {
		ready = func() error { return nil }
	}
	served := grpc.NewServer(options...)
	get := streamed(&shardpb.ShardService_ServiceDesc)
	get.Streams[0].Handler = s.get
	served.RegisterService(get, nil)
	served.RegisterService(streamed(&grpc_health_v1.Health_ServiceDesc), &health{ready: ready, drained: s.drained})
	reflection.Register(served)
	return served
}

// ErrCutOff is returned by Drain if calls were in progress when its context ended. They were cut off.
var ErrCutOff = errors.New("calls were cut off")

// Serve serves calls on connections of l until Drain is called. It must be called at most once.
func (s *Server) Serve(l net.Listener) error {
	err := s.served().Serve(&listener{Listener: l, most: int64(s.limits.Connections)})
	if err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve shards on %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain makes health checks report that the node doesn't serve, closes the listener, tells clients to use other connections, and
// returns when no call is in progress. When ctx ends it closes all connections, and returns an error that is ErrCutOff.
func (s *Server) Drain(ctx context.Context) error {
	s.drain()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.served().GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.served().Stop()
	return ErrCutOff
}
