package server

// ReservedConnections is how many connections are accepted when all places are in use.
const ReservedConnections = reservedConnections

// AdminConnections is the limit of the admin listener.
const AdminConnections = adminConnections

// Connections returns how many connections a server has.
func Connections(s *Server) int { return s.openConnections() }
