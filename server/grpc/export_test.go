package grpc

import "time"

// LimitQueries changes how long a client may take to read the answer to a query, or to read nothing of it, before
// Serve.
func LimitQueries(s *Services, limit, stall time.Duration) {
	s.answers = answers{limit: limit, stall: stall}
}

// LimitArrivals changes how long messages may take to arrive, before Serve.
func LimitArrivals(s *Services, limit, slow time.Duration, most int) {
	s.arrivals.Limit, s.arrivals.Slow, s.arrivals.Most = limit, slow, most
}

// LimitConnections changes how far apart PINGs must be, and when an idle connection is closed, before Serve.
func LimitConnections(s *Services, pingsApart, idleAfter time.Duration) {
	s.keepalives = keepalives{pingsApart: pingsApart, idleAfter: idleAfter}
}
