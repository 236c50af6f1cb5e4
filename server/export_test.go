package server

// ReservedConnections is how many connections are accepted beyond the limit.
const ReservedConnections = reservedConnections

// Routes returns the routes, each as its method and path.
func Routes(s *Server) []string { return s.router.Routes() }

// Connections returns how many connections a server has.
func Connections(s *Server) int { return s.openConnections() }

// BodyBytes returns how much memory bodies take.
func BodyBytes(s *Server) int64 { return s.router.BodyBytes() }
