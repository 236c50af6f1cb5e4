package grpc

import "time"

// LimitQueries changes the limits for a client to read the answer to a query, in total and without progress. Call it
// before Serve.
func LimitQueries(s *Services, limit, stall time.Duration) {
	s.answers = answers{limit: limit, stall: stall}
}

// LimitArrivals changes the limits for messages to arrive. Call it before Serve.
func LimitArrivals(s *Services, limit, slow time.Duration, maxSlow int) {
	s.arrivals.Limit, s.arrivals.Slow, s.arrivals.MaxSlow = limit, slow, maxSlow
}

// LimitConnections changes how far apart PINGs must be, and when an idle connection is closed, before Serve.
func LimitConnections(s *Services, pingsApart, idleAfter time.Duration) {
	s.keepalives = keepalives{pingsApart: pingsApart, idleAfter: idleAfter}
}

// LimitFetches changes the limits for a client to read matches, in total and without progress. Call it before Serve.
func LimitFetches(s *Services, limit, stall time.Duration) {
	s.fetched = answers{limit: limit, stall: stall}
}
