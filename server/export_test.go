package server

// ReservedConnections is how many connections are accepted beyond the limit.
const ReservedConnections = reservedConnections

// Connections returns how many connections a server has.
func Connections(s *Server) int { return s.openConnections() }
