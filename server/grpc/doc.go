// Package grpc serves Open Match's services for players and match functions, FrontendService and QueryService, and
// gRPC's health and reflection services. Clients call them by gRPC, gRPC-Web or Connect on the HTTP port.
//
// [Register] adds a route for each procedure to a router. Requests go the way of all others, through package web, which
// counts and logs them; the connect library then reads and writes their messages. frontend.go, watch.go and query.go
// have the services, errors.go is the only place that maps kinds of errors to gRPC codes, and body.go checks what arrives.
// Package openmatch/convert turns messages into values of package matchmaking.
//
// Errors of the service reach the client as gRPC codes with the error's detail. What the client isn't told is in the log,
// under the request's ID.
package grpc
