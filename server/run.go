package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	headerTimeout  = 10 * time.Second // for a request's line and headers to come in
	bodyTimeout    = 30 * time.Second // for its body, on top of the longest wait
	answerTimeout  = 2 * time.Minute  // for the client to read the answer, on top of the longest wait
	idleTimeout    = 2 * time.Minute  // between requests on a connection
	maxHeaderBytes = 32 << 10

	// pingAfter is how long an HTTP/2 connection may be silent before the server sends a PING. The connection is closed
	// when the client doesn't answer it, or reads nothing, for as long again.
	pingAfter = 30 * time.Second
)

// ErrGrace says that requests were still running when the grace had passed, and that their connections were closed.
var ErrGrace = errors.New("requests were cut off when the grace had passed")

// Run serves connections of l until ctx ends. Then it drains: readiness turns 503, and waiting fetches are answered. For
// the drain delay connections are still accepted and requests still served, each connection for one more answer, so that
// clients move to other servers without an error. After it Run closes l and idle connections, lets requests in flight
// finish, and returns nil. Where that takes longer than the grace it closes all connections and returns an error that is
// ErrGrace. A fault of the listener ends it too. Run must be called once.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx)) // requests outlive ctx by the grace
	defer cancel()
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		s.loopback.Store(addr.IP.IsLoopback())
	}
	hs := s.httpServer(requests)
	var failed error
	served := make(chan struct{})
	limited := s.limit(l)
	go func() {
		defer close(served)
		failed = hs.Serve(limited)
	}()
	select {
	case <-served:
		return fmt.Errorf("serve HTTP on %s: %w", l.Addr(), failed)
	case <-ctx.Done():
	}
	err := s.drain(requests, hs, served)
	<-served
	return err
}

// limit makes the listener keep to the limit on connections.
func (s *Server) limit(l net.Listener) *limitedListener {
	limited := &limitedListener{
		Listener: l, limit: s.options.MaxConnections, refuse: s.refuseUnread, refused: s.metrics.refused, log: s.log,
	}
	s.listener.Store(limited)
	return limited
}

// connections returns how many connections are open.
func (s *Server) connections() int {
	if l := s.listener.Load(); l != nil {
		return l.count()
	}
	return 0
}

func (s *Server) httpServer(ctx context.Context) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // what gRPC is spoken over
	longest := s.service.Limits().MaxWait
	return &http.Server{
		Handler:           s.echo,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       connContext,
		Protocols:         protocols,
		HTTP2:             s.http2Config(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       longest + bodyTimeout, // it also ends what is read while a fetch waits, so it is longer than that
		WriteTimeout:      longest + answerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// OPTIONS * is answered like any path that there isn't.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// http2Config bounds what one connection can have the server do. net/http runs MaxConcurrentStreams handlers of a
// connection at a time, those of streams that the client has reset included, keeps four times as many requests for later,
// and closes the connection when there are more.
func (s *Server) http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: s.options.MaxStreams,
		// What a handler hasn't read yet is kept by net/http, beside what handlers keep.
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10,
		SendPingTimeout: pingAfter, PingTimeout: pingAfter, WriteByteTimeout: pingAfter,
	}
}

// drain ends the service to clients, and returns when nothing is served any more. served is closed when no connection
// is accepted any more.
func (s *Server) drain(ctx context.Context, hs *http.Server, served <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Grace)
	defer cancel()
	s.draining.Store(true)
	s.rpc.drain()
	s.service.Drain()
	s.log.Info("draining", "grace", s.options.Grace) // now that it is so, for whoever acts on the log
	if s.options.DrainDelay > 0 {
		delay := time.NewTimer(s.options.DrainDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-served:
		case <-ctx.Done():
		}
	}
	err := hs.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w (%s)", ErrGrace, s.options.Grace)
	}
	if err != nil {
		return errors.Join(err, hs.Close())
	}
	return nil
}
