package server

import "github.com/tidemark-dev/tidemark/server/web"

// ReservedConnections is how many connections are accepted beyond the limit.
const ReservedConnections = reservedConnections

// Routes returns the routes.
func Routes(s *Server) []web.Route { return s.router.Routes() }

// Connections returns how many connections a server has.
func Connections(s *Server) int { return s.openConnections() }

// BodyBytes returns how much memory bodies take.
func BodyBytes(s *Server) int64 { return s.router.BodyBytes() }
