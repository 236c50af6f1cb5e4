package server

// Matchmaker is what Open Match's services need.
type Matchmaker = matchmaker

// MountRPC adds the services that are called by gRPC, and gives what begins to drain them.
func MountRPC(s *Server, m Matchmaker) (drain func()) {
	r := s.addRPC(m)
	return func() {
		s.draining.Store(true)
		r.drain()
	}
}
