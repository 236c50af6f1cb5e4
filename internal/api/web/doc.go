// Package web has the common part of all HTTP requests, for all APIs.
//
// Start at [Router]. An API registers its routes with it, and each route goes one way:
//
//	net/http ─► echo's router ─► route.serve ─► Handler ─► a domain service
//	                              │  ▲            │
//	                              │  └── error ◄──┘
//	                              └─► API.Fail, such as [Fail]: writes the error
//
// There is no other middleware, except for CORS and for OPTIONS. route.serve sets the request's ID, refuses malformed
// requests (see below), recovers from panics, counts and logs. A [Handler] reads its request from a [Call], makes one
// call of a service, and writes the answer with the Call's methods. It never writes an error: it returns one.
// problem.go is the only place that maps kinds of errors to HTTP statuses.
//
// Paths are routed as they were sent, percent-escapes included: an escaped slash is part of a name, and refused as
// such, and never selects another route.
//
// # Credentials
//
// bearer.go finds the client's credential, and admit.go asks the guard for its principal, and whether that may do the
// route's action. That happens once, before the handler is called. A handler that learns the resource from the body
// calls Call.Allow. The context of a route that waits ends when the credential does, and the answer is
// an error then. An access.FailureLimiter limits the invalid credentials of each address. Without a guard the service
// is open, and credentials are ignored.
//
// # What is refused before a handler is called
//
// Requests that the client's credential does not allow; requests on connections beyond the server's limit, except
// probes and metrics; requests for host names that the service doesn't have; requests that a browser sends for a page
// of another origin; query parameters where a route has none.
//
// # Memory
//
// The bodies of all requests in progress share a fixed amount of memory. A body takes its part as it arrives, must
// arrive at a minimum rate, and is refused with 503 when there is no memory left. A client has a quarter of it, beyond
// which its bodies are refused with 429, and an address whose client has no credential yet a sixteenth. Bodies of up to
// 1 KiB are always taken.
//
// All answers of more than 4 KiB have such an amount, too, from when their size is known until they are written;
// package internal/unsent has the rules. A client has a quarter of it. One that leaves half of that unread is refused
// before the handler is called if the route reads, and otherwise if its request is large; on the listener of gRPC all
// its calls are, except for health checks. The answer of a call that has changed something is never refused. An answer
// must be read at a minimum rate.
//
// A Router may be used by several goroutines, once all routes are registered. A Call and its buffers belong to the
// goroutine that serves the request.
package web
