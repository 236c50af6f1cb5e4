// Package server serves Tidemark's APIs on an HTTP port: /v1, the predecessor's API, Open Match's services and the
// probes; gRPC on a port of its own; and for administrators all of HTTP's, the metrics and profiles on a third
// listener.
//
// Only the program uses it: nothing in it is promised to others.
//
// Start at [Server]: [New] composes it from the packages below internal/api, of which web is the common part of all
// requests, and [Server.Run] listens, and drains when its context ends. channels.go has the steps of every operation on
// a channel, for all APIs: reserved prefixes, the limits of the client, the service, and counters; streams.go those of
// streams. tickets.go has those of the operations on tickets.
//
// # Drain
//
// When the context of Run ends, readiness fails and waiting fetches are answered. For Options.DrainDelay the server
// accepts connections as before, so that load balancers can notice; each HTTP connection is closed after its next
// answer. Then it closes the listeners, tells clients of gRPC to use other connections, and waits for requests in
// progress, until Options.Grace has passed since the beginning. The admin listener is closed last.
package server
