package grpc

import "time"

// LimitArrivals changes how long messages may take to arrive, before Serve.
func LimitArrivals(s *Services, limit, slow time.Duration, most int) {
	s.arrivals.limit, s.arrivals.slow, s.arrivals.most = limit, slow, most
}
