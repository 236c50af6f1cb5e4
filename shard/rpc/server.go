package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc/shardpb"
)

// ServerOptions configures a server. Handler is required.
type ServerOptions struct {
	Handler shard.Handler // answers calls
}

// Server answers calls for a node. All methods may be called by several goroutines.
type Server struct {
	handler shard.Handler
	served  *grpc.Server
}

// NewServer returns a server.
func NewServer(o ServerOptions) *Server {
	s := &Server{handler: o.Handler, served: grpc.NewServer()}
	shardpb.RegisterShardServiceServer(s.served, &service{server: s})
	return s
}

// ErrCutOff is returned by Drain if calls were in progress when its context ended. They were cut off.
var ErrCutOff = errors.New("calls were cut off")

// Serve serves calls on connections of l until Drain is called. It must be called at most once.
func (s *Server) Serve(l net.Listener) error {
	if err := s.served.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve shards on %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain closes the listener, tells clients to use other connections, and returns when no call is in progress. When ctx ends it
// closes all connections, and returns an error that is ErrCutOff.
func (s *Server) Drain(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.served.GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.served.Stop()
	<-done
	return ErrCutOff
}

type service struct {
	shardpb.UnimplementedShardServiceServer
	server *Server
}

func (s *service) Get(ctx context.Context, in *shardpb.GetRequest) (*shardpb.GetResponse, error) {
	response, err := s.server.handler.Get(ctx, &shard.Request{Cache: in.GetCache(), Payload: in.GetPayload(), Keys: in.GetShardingKeys()})
	if err != nil {
		return nil, told(err)
	}
	out := &shardpb.GetResponse{Payload: response.Payload, AllMatched: response.AllMatched}
	if response.Assigned {
		out.Shard = &shardpb.Shard{First: response.Shard.First, Last: response.Shard.Last}
		out.Incarnation = response.Incarnation
	}
	return out, nil
}
