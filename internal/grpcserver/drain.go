package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"net"

	"google.golang.org/grpc"
)

// Serve serves calls on connections of l until the server is stopped.
func Serve(s *grpc.Server, l net.Listener) error {
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// Drain closes the listener of the server, tells clients to use other connections, and returns when no call is in progress.
// When ctx ends it closes all connections, which cuts off the calls in progress, and returns false.
func Drain(ctx context.Context, s *grpc.Server) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.GracefulStop()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	s.Stop()
	return false
}
