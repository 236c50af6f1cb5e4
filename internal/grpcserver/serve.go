package grpcserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/tidemark-dev/tidemark/internal/places"
)

// Server is a server that drains in time. grpc-go waits, also when it stops, until each connection has sent its preface
// or was given up, and tells clients of the others only then to use another server.
type Server struct {
	*grpc.Server

	mu       sync.Mutex
	open     map[*trackedConn]struct{}
	draining bool
}

// New returns a server with the services of s.
func New(s *grpc.Server) *Server {
	return &Server{Server: s, open: map[*trackedConn]struct{}{}}
}

// Serve serves calls on connections of l until the server is stopped.
func (s *Server) Serve(l net.Listener) error {
	if err := s.Server.Serve(&trackingListener{Listener: l, server: s}); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve gRPC on %s: %w", l.Addr(), err)
	}
	return nil
}

// prefaceBytes is the size of what a client sends first: its preface, and a SETTINGS frame without settings.
const prefaceBytes = 24 + 9

// trackingListener is a listener that registers its connections with a Server.
type trackingListener struct {
	net.Listener
	server *Server
}

// Accept waits for the next connection.
func (l *trackingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &trackedConn{Conn: conn, server: l.server, ended: make(chan struct{})}
	c.end = sync.OnceFunc(func() { close(c.ended) })
	c.prefaceLeft.Store(prefaceBytes)
	if !l.server.add(c) {
		_ = conn.Close() // grpc-go closes the listener next
	}
	return c, nil
}

// trackedConn is a connection of a Server. Its methods may be called by several goroutines.
type trackedConn struct {
	net.Conn
	server      *Server
	prefaceLeft atomic.Int64  // bytes that were not received of the preface; not positive: it is complete
	end         func()        // closes ended
	ended       chan struct{} // the connection has
}

// clientAddr is the address of a client, which calls have as that of their peer, with its connection.
type clientAddr struct {
	net.Addr
	conn *trackedConn
}

// RemoteAddr returns the address of the client.
func (c *trackedConn) RemoteAddr() net.Addr { return clientAddr{c.Conn.RemoteAddr(), c} }

// connOf returns the connection of a call, or nil.
func connOf(ctx context.Context) *trackedConn {
	if from, ok := peer.FromContext(ctx); ok {
		if at, ok := from.Addr.(clientAddr); ok {
			return at.conn
		}
	}
	return nil
}

// PlaceOf returns the place of the connection of a call, if it came from a listener with places. It may be nil.
func PlaceOf(ctx context.Context) *places.Place {
	if c := connOf(ctx); c != nil {
		if placed, ok := c.Conn.(*places.Conn); ok {
			return placed.Place
		}
	}
	return nil
}

// Read reads what the client sends.
func (c *trackedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.prefaceLeft.Load() > 0 {
		c.prefaceLeft.Add(-int64(n))
	}
	return n, err
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.server.remove(c)
	c.end()
	return c.Conn.Close()
}

// add adds an open connection, and reports whether the server isn't draining.
func (s *Server) add(c *trackedConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[c] = struct{}{}
	return !s.draining
}

func (s *Server) remove(c *trackedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
}

// end closes the connections for which which returns true, and those that are accepted from now on. It closes them at
// the same time: the end of one with TLS may have to wait for its client.
func (s *Server) end(which func(*trackedConn) bool) {
	var closing sync.WaitGroup
	defer closing.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	for c := range s.open {
		if which(c) {
			closing.Go(func() { _ = c.Conn.Close() }) // grpc-go closes it again
		}
	}
}

// Drain closes the listener of the server and connections on which no client has spoken, tells clients to use other
// connections, and returns when no call is in progress. When ctx ends it closes all connections, which cuts off the
// calls in progress, and returns false.
func (s *Server) Drain(ctx context.Context) bool {
	s.end(func(c *trackedConn) bool { return c.prefaceLeft.Load() > 0 })
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
	s.end(func(*trackedConn) bool { return true })
	s.Stop()
	return false
}
