package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
)

// Serve serves calls on connections of l until the server is stopped.
func Serve(s *grpc.Server, l net.Listener) error {
	if err := s.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// Limit returns a listener that calls take for each connection, closes the connection at once if take returns false,
// and otherwise calls release when it is closed.
func Limit(l net.Listener, take func() bool, release func()) net.Listener {
	return &listener{Listener: l, take: take, release: release}
}

type listener struct {
	net.Listener
	take    func() bool
	release func()
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.take() {
			return &connection{Conn: conn, release: sync.OnceFunc(l.release)}, nil
		}
		_ = conn.Close() // without pending writes
	}
}

// connection is an open connection of a listener.
type connection struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *connection) Close() error {
	c.release()
	return c.Conn.Close()
}

// Drain closes the listener of the server, tells clients to use other connections, and returns when no call is in
// progress. When ctx ends it closes all connections, which cuts off the calls in progress, and returns false.
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
