package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/places"
)

const (
	headerTimeout = 10 * time.Second // for reading a request's line and headers
	bodyTimeout   = 30 * time.Second // for reading its body, on top of the longest wait

	// pingAfter is how long an HTTP/2 connection may be silent before the server sends a PING. The connection is closed
	// if the client doesn't answer it, or reads nothing, for as long again.
	pingAfter = 30 * time.Second
)

// ErrGrace is returned by Run if requests were still in progress when the grace had passed. Their connections were
// closed.
var ErrGrace = errors.New("requests were cut off when the grace had passed")

// Listeners are where Run serves.
type Listeners struct {
	HTTP  net.Listener
	GRPC  net.Listener // nil: gRPC is served on the HTTP port only. Without matchmaking nothing is served here.
	Admin net.Listener // nil: calls for administrators aren't served. On a Unix socket every client is one.
	// OpenMatch are listeners for one service of Open Match each, by its name: frontend, backend or query. Without
	// matchmaking nothing is served here.
	OpenMatch map[string]net.Listener
	// Console is the URL of the console on Admin, for people who use this machine: the page of HTTP shows it to everybody.
	Console string
}

// Run serves connections until ctx ends, and then drains, as the package comment describes. It returns nil when all
// requests have finished. If that takes longer than the grace, it closes all connections and returns an error that is
// ErrGrace. It returns early if a listener fails. Run must be called once.
func (s *Server) Run(ctx context.Context, l Listeners) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx)) // requests outlive ctx by the grace
	defer cancel()
	served, fail := context.WithCancelCause(requests) // ends when a listener fails
	defer fail(nil)
	var serving sync.WaitGroup
	serve := func(hs *http.Server, l net.Listener) {
		serving.Go(func() {
			if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				fail(fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err))
			}
		})
	}
	s.console.Store(&l.Console)
	public, admin := s.httpServer(requests, s.router), s.httpServer(requests, s.router.Admin())
	serve(public, s.limit(l.HTTP))
	if l.Admin != nil {
		serve(admin, &limitedListener{Listener: l.Admin, connections: &s.admin, refuse: s.router.RefuseUnread})
	}
	others := make([]*http.Server, 0, len(l.OpenMatch))
	for name, listener := range l.OpenMatch {
		if s.services == nil {
			break
		}
		hs := s.httpServer(requests, s.services.Only(name))
		others = append(others, hs)
		serve(hs, s.limit(listener))
	}
	if l.GRPC != nil && s.services != nil {
		serving.Go(func() {
			framed := &framesListener{Listener: l.GRPC, connections: &s.connections}
			limited := &places.Listener{Listener: framed, Limit: s.connections.Limit, Refused: s.connections.refused}
			if err := s.services.Serve(limited); err != nil {
				fail(err)
			}
		})
	}
	var failed error
	select {
	case <-served.Done():
		failed = context.Cause(served)
	case <-ctx.Done():
	}
	err := s.drain(requests, draining{public: append(others, public), admin: admin, failed: served.Done()})
	serving.Wait()
	return errors.Join(failed, err)
}

// limit returns a listener that enforces the limit on connections.
func (s *Server) limit(l net.Listener) *limitedListener {
	limited := &limitedListener{Listener: l, connections: &s.connections, refuse: s.router.RefuseUnread}
	s.listening.Lock()
	defer s.listening.Unlock()
	s.listeners = append(s.listeners, limited)
	return limited
}

// openConnections returns how many connections are open.
func (s *Server) openConnections() int {
	open := s.connections.Open()
	s.listening.Lock()
	defer s.listening.Unlock()
	for _, l := range s.listeners {
		open += l.beyond()
	}
	return open
}

// readTimeout returns how long a request may take to arrive. It also limits reads while a fetch waits, so it is longer
// than the longest wait.
func (s *Server) readTimeout() time.Duration { return s.service.Limits().MaxWait + bodyTimeout }

func (s *Server) httpServer(ctx context.Context, h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // for gRPC
	return &http.Server{
		Handler:           closeAmbiguous(h),
		BaseContext:       web.BaseContext(ctx),
		ConnContext:       connContext,
		Protocols:         protocols,
		HTTP2:             s.http2Config(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       s.readTimeout(),
		WriteTimeout:      s.service.Limits().MaxWait + web.AnswerTimeout,
		IdleTimeout:       s.options.Limits.IdleTimeout,
		MaxHeaderBytes:    web.MaxHeaderBytes,
		// OPTIONS * is answered like any unknown path.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// http2Config bounds what one connection can make the server do. net/http runs MaxConcurrentStreams handlers of a
// connection at a time, including those of streams that the client has reset, queues four times as many requests, and
// closes the connection if there are more.
func (s *Server) http2Config() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxConcurrentStreams: s.options.Limits.MaxStreams,
		// Buffered by net/http until a handler reads it, in addition to what handlers keep.
		MaxReceiveBufferPerConnection: 256 << 10, MaxReceiveBufferPerStream: 64 << 10,
		SendPingTimeout: pingAfter, PingTimeout: pingAfter, WriteByteTimeout: pingAfter,
	}
}

// draining is the argument of drain.
type draining struct {
	public []*http.Server
	admin  *http.Server
	failed <-chan struct{} // closed when a listener fails
}

// drain ends the service to clients, and returns when no request is in progress. The admin listener is the last one, so
// that the drain can be watched.
func (s *Server) drain(ctx context.Context, d draining) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.Grace)
	defer cancel()
	s.stop()
	s.log.Info("draining", "grace", s.options.Grace) // for readers of the log
	if s.options.DrainDelay > 0 {
		delay := time.NewTimer(s.options.DrainDelay)
		defer delay.Stop()
		select {
		case <-delay.C:
		case <-d.failed:
		case <-ctx.Done():
		}
	}
	var onSockets, onStreams, onGRPC error
	var ending sync.WaitGroup
	onHTTP := make([]error, len(d.public))
	for i, hs := range d.public {
		ending.Go(func() { onHTTP[i] = shutdown(ctx, hs) })
	}
	ending.Go(func() { onSockets = s.sockets.Wait(ctx) }) // net/http doesn't know them any more
	if s.services != nil {
		ending.Go(func() { onGRPC = s.services.Drain(ctx) })
	}
	ending.Wait()
	onStreams = s.router.WaitDetached(ctx) // once no request can become one
	onAdmin := shutdown(ctx, d.admin)
	err := errors.Join(errors.Join(onHTTP...), onSockets, onStreams, onGRPC, onAdmin)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, grpc.ErrCutOff) {
		return fmt.Errorf("%w (%s)", ErrGrace, s.options.Grace)
	}
	return err
}

// shutdown waits for requests, and closes all connections when ctx ends.
func shutdown(ctx context.Context, hs *http.Server) error {
	err := hs.Shutdown(ctx)
	if err != nil {
		return errors.Join(err, hs.Close())
	}
	return nil
}
