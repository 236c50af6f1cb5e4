package server

import "github.com/labstack/echo/v4"

// Routes gives the routes as echo has them.
func Routes(s *Server) []*echo.Route { return s.echo.Routes() }

// Parts that are fuzzed.
var (
	FetchQuery    = fetchQuery
	OldQuery      = oldQuery
	SaneRequestID = saneRequestID
	FieldInBody   = fieldInBody
)

// How fast a body must come in.
const (
	BodyHeadStart = bodyHeadStart
	BodyRate      = bodyRate
)

// ReservedConnections is how many connections are taken beyond the limit.
const ReservedConnections = reservedConnections

// Connections returns how many connections a server has.
func Connections(s *Server) int { return s.connections() }

// BodyBytes returns how much memory bodies take.
func BodyBytes(s *Server) int64 { return s.bodies.used.Load() }

// What kinds of errors are mapped to.
var (
	StatusOf = statusOf
	CodeOf   = codeOf
)
