package grpc

import (
	"context"
	"errors"
	"math"
	"net"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // for clients that compress
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/grpcserver"
)

// Limits of one connection of gRPC's own listener.
const (
	largestAnswer = 4 << 20 // the default limit of clients
	// of the answer to a query, unless one ticket has more: unread answers are in memory
	pageBytes       = 256 << 10
	largestOverhead = 64 << 10 // of a ticket in an answer, in addition to its client's bytes

	streamWindow     = 64 << 10  // bytes that a client may send on a stream before the service reads them
	connectionWindow = 256 << 10 // the same for a connection
	connectTimeout   = 10 * time.Second
	headerBytes      = web.MaxHeaderBytes

	arrivalLimit = 10 * time.Second // of a message
	arrivalSlow  = time.Second      // of a message that doesn't count for Limits.SlowMessages

	healthPeriod = 5 * time.Second // between two checks of a watch

	pingAfter   = 30 * time.Second // a connection may be silent before the server sends a PING
	pingTimeout = 30 * time.Second // then the connection is closed if the client doesn't answer
)

// errSlow is the error of a message that took too long to arrive.
var errSlow = status.Error(codes.DeadlineExceeded, web.ErrBodySlow.Detail)

// keepalives decides which connections of gRPC's own listener are closed.
type keepalives struct {
	pingsApart time.Duration // clients may not send PINGs more often
	idleAfter  time.Duration // a connection without calls
}

var defaultKeepalives = keepalives{pingsApart: 10 * time.Second, idleAfter: 10 * time.Minute}

func (s *Services) nativeOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxConcurrentStreams(uint32(min(s.limits.Streams, math.MaxInt32))),
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow),
		grpc.MaxHeaderListSize(headerBytes), grpc.ConnectionTimeout(connectTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: pingAfter, Timeout: pingTimeout, MaxConnectionIdle: s.keepalives.idleAfter,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: s.keepalives.pingsApart, PermitWithoutStream: true,
		}),
		grpc.NumStreamWorkers(uint32(runtime.GOMAXPROCS(0))), grpc.InTapHandle(grpcserver.Endable),
	}
}

// ErrCutOff is returned by Drain if it closed connections with calls in progress because its context ended.
var ErrCutOff = errors.New("calls were cut off")

// Serve serves gRPC on connections of l until Drain is called. It must be called at most once.
func (s *Services) Serve(l net.Listener) error {
	s.onLoopback.Store(web.IsLoopback(l))
	return s.native().Serve(l)
}

// Drain closes the listener of Serve, tells clients to use other connections, and returns when no call is in progress.
// When ctx ends it closes all connections, and returns an error that is ErrCutOff.
func (s *Services) Drain(ctx context.Context) error {
	if !s.native().Drain(ctx) {
		return ErrCutOff
	}
	return nil
}
