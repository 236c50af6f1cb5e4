package server

import (
	"log/slog"

	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// Drain sends the clients to other servers, as the end of Run's context does at first, until Resume: readiness fails,
// fetches that wait return, streams and WebSockets end, and a connection is closed after its next answer. All requests
// are served as before, but for those that wait: a fetch waits for a second at most, a stream ends at once, and
// WebSockets are refused. Run, and what the service does in the background, goes on. It may be called more than once.
// Errors: web.ErrDraining when Run's context has ended.
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
		s.router.Resume() // the last one: a client that finds the server ready can wait
	})
}

// changeDrain begins or ends a drain, unless the server stops.
func (s *Server) changeDrain(drains bool, how func()) error {
	s.drainChange.Lock()
	defer s.drainChange.Unlock()
	switch {
	case s.router.IsStopping():
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
	s.drainChange.Lock()
	defer s.drainChange.Unlock()
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
