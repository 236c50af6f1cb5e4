package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/server/web"
)

const (
	headerTimeout = 10 * time.Second // for reading a request's line and headers
	bodyTimeout   = 30 * time.Second // for reading its body, on top of the longest wait
	idleTimeout   = 2 * time.Minute  // between requests on a connection

	// pingAfter is how long an HTTP/2 connection may be silent before the server sends a PING. The connection is closed
	// if the client doesn't answer it, or reads nothing, for as long again.
	pingAfter = 30 * time.Second
)

// ErrGrace is returned by Run if requests were still in progress when the grace had passed. Their connections were closed.
var ErrGrace = errors.New("requests were cut off when the grace had passed")

// Run serves connections of l until ctx ends, and then drains, as the package comment describes. It returns nil when all
// requests have finished. If that takes longer than the grace, it closes all connections and returns an error that is
// ErrGrace. It returns early if the listener fails. Run must be called once.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx)) // requests outlive ctx by the grace
	defer cancel()
	if addr, ok := l.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() {
		s.router.Loopback()
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

// limit returns a listener that enforces the limit on connections.
func (s *Server) limit(l net.Listener) *limitedListener {
	limited := &limitedListener{
		Listener: l, limit: s.options.Limits.MaxConnections, refuse: s.router.RefuseUnread, refused: s.router.CountRefused, log: s.log,
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

// readTimeout returns how long a request may take to arrive. It also ends what is read while a fetch waits, so it is longer
// than the longest wait.
func (s *Server) readTimeout() time.Duration { return s.service.Limits().MaxWait + bodyTimeout }

func (s *Server) httpServer(ctx context.Context) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for gRPC
	return &http.Server{
		Handler:           s.router,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext:       connContext,
		Protocols:         protocols,
		HTTP2:             s.http2Config(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.readTimeout(),
		WriteTimeout:      s.service.Limits().MaxWait + web.AnswerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    web.MaxHeaderBytes,
		// OPTIONS * is answered like any unknown path.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// http2Config bounds what one connection can make the server do. net/http runs MaxConcurrentStreams handlers of a connection
// at a time, including those of streams that the client has reset, queues four times as many requests, and closes the
// connection if there are more.
func (s *Server) http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: s.options.Limits.MaxStreams,
		// Buffered by net/http until a handler reads it, in addition to what handlers keep.
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10,
		SendPingTimeout: pingAfter, PingTimeout: pingAfter, WriteByteTimeout: pingAfter,
	}
}

// drain ends the service to clients, and returns when no request is in progress. served is closed when no more connections
// are accepted.
func (s *Server) drain(ctx context.Context, hs *http.Server, served <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Grace)
	defer cancel()
	s.router.Drain()
	s.service.Drain()
	s.log.Info("draining", "grace", s.options.Grace) // after the fact, for those who act on the log
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
