package server

import (
	"log/slog"
	"sync"

	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// drainState is whether the server drains.
type drainState struct {
	mu       sync.Mutex // held while it changes
	stopping bool       // Run's context has ended
}

// Drain sends the clients to other servers, as the end of Run's context does at first, until Resume: readiness fails,
// fetches that wait return, streams and WebSockets end, and a connection is closed after its next answer. All requests
// are served as before, but for those that wait: a fetch waits for a second at most, a stream ends at once, and WebSockets
// are refused. Run, and what the service does in the background, goes on. It may be called more
// than once. Errors: web.ErrDraining when Run's context has ended.
func (s *Server) Drain() error {
	return s.changeDrain(true, func() {
		s.router.Drain()
		s.service.Suspend()
		s.endWaits()
	})
}

// Resume ends Drain: the server is ready, and serves as before. Errors: web.ErrDraining when Run's context has ended.
func (s *Server) Resume() error {
	return s.changeDrain(false, func() {
		s.service.Resume()
		if s.options.Matchmaking != nil {
			s.options.Matchmaking.Resume()
		}
		if s.options.Records != nil {
			s.options.Records.Resume()
		}
		s.router.Resume() // the last one: who finds the server ready can wait
	})
}

// changeDrain begins or ends a drain, unless the server stops.
func (s *Server) changeDrain(drains bool, how func()) error {
	s.draining.mu.Lock()
	defer s.draining.mu.Unlock()
	switch {
	case s.draining.stopping:
		return web.ErrDraining
	case s.router.IsDraining() == drains:
		return nil
	}
	how()
	s.log.Info("drain changed", slog.Bool("draining", drains)) // for readers of the log
	if s.options.OnDrain != nil {
		s.options.OnDrain(drains)
	}
	return nil
}

// stop is Drain for good.
func (s *Server) stop() {
	s.draining.mu.Lock()
	defer s.draining.mu.Unlock()
	s.draining.stopping = true
	s.router.Stop()
	s.service.Drain()
	s.endWaits()
}

// endWaits ends what waits besides fetches and streams, now and until it may wait again.
func (s *Server) endWaits() {
	s.sockets.Drain()
	if s.options.Matchmaking != nil {
		s.options.Matchmaking.Drain()
	}
	if s.options.Records != nil {
		s.options.Records.Drain()
	}
}
