// Package server is Tidemark's HTTP API: /v1, the predecessor's API and Open Match's services beside it, the probes and
// the metrics.
//
// A request takes one way:
//
//	net/http ─► echo's router ─► route.serve ─► handler ─► channel.Service, matchmaking's service.Service
//	                               │  ▲             │
//	                               │  └── error ◄───┘
//	                               └─► problem.go (or the predecessor's errors): the one place that knows HTTP statuses
//
// There is no middleware but route.serve (and CORS, where it is configured, and headers for OPTIONS): it sets the ID of the request, checks
// what all calls have in common, and recovers, counts and logs. A handler reads its request, makes one call of
// the service, and writes the answer. Paths are routed as they came, with percent-escapes, so that an escaped
// slash is part of a name, and refused as such, and never leads to another route. The handlers of Open Match's services
// are connect's, which answers errors as the caller's protocol has them: see grpc.go.
package server
