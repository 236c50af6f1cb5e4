package grpc

import "time"

// LimitQueries changes how long a client may take to read the answer to a query, before Serve.
func LimitQueries(s *Services, limit time.Duration) {
	s.answerTime = limit
}

// LimitArrivals changes how long messages may take to arrive, before Serve.
func LimitArrivals(s *Services, limit, slow time.Duration, most int) {
	s.arrivals.limit, s.arrivals.slow, s.arrivals.most = limit, slow, most
}

// LimitConnections changes how far apart PINGs must be, and when an idle connection is closed, before Serve.
func LimitConnections(s *Services, pingsApart, idleAfter time.Duration) {
	s.keepalives = keepalives{pingsApart: pingsApart, idleAfter: idleAfter}
}
