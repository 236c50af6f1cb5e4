// Package grpc serves Open Match's services for players and match functions, FrontendService and QueryService, and
// gRPC's health and reflection services.
//
// [New] makes the services once. They are served twice: by grpc-go on a listener of its own ([Services.Serve]), and on
// the HTTP port ([Services.AddRoutes]) by connect-go, for clients of gRPC, gRPC-Web and Connect, and by Open Match's JSON
// paths. frontend.go, backend.go and query.go implement Open Match's services; package internal/openmatch/convert turns
// messages into values of package matchmaking. calls.go has the common part of all calls, with the limit of the memory
// of their messages; authorized.go authenticates clients and checks the permissions that needs.go lists, and errors.go is
// the only place that maps kinds of errors to gRPC codes.
//
// On the HTTP port routes.go registers the methods, connect.go calls them by connect-go's protocols, and json.go by the
// JSON paths, whose messages anys.go encodes.
//
// Errors of the service reach the client as gRPC codes with the error's detail. Details hidden from the client are in
// the log, under the request's ID.
package grpc
