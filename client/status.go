package client

import (
	"context"
	"net/http"
	"time"
)

// The calls of this file are answered on the service's admin address only.

// PeerServer describes a server on the same Redis.
type PeerServer struct {
	ID        string    `json:"id"` // a ULID, another one after each start
	Role      string    `json:"role"`
	Version   string    `json:"version"`
	Commit    string    `json:"commit"`
	Host      string    `json:"host"` // name of the machine
	PID       int       `json:"pid"`
	Listen    []string  `json:"listen"` // addresses, those of administrators last
	StartedAt time.Time `json:"startedAt"`
	SeenAt    time.Time `json:"seenAt"` // when it announced itself last, by the clock of Redis
	Leases    []string  `json:"leases"` // names of the leases that it holds, such as that of a queue
	// MoreLeases is how many leases are left out.
	MoreLeases int  `json:"moreLeases,omitempty"`
	Draining   bool `json:"draining,omitempty"` // an operator sends its clients to other servers
	Self       bool `json:"self,omitempty"`     // it answers this request
}

// FoundProblem is something that is wrong now.
type FoundProblem struct {
	Code     string    `json:"code"` // names the kind of problem: that of the alert, if there is one
	About    string    `json:"about,omitempty"`
	Severity Severity  `json:"severity"`
	Text     string    `json:"text"`
	Since    time.Time `json:"since"` // when this server has noticed it
	Docs     string    `json:"docs"`  // what to do: a URL
}

// Severity is how urgent a problem is.
type Severity string

// The severities.
const (
	SeverityCritical Severity = "critical" // clients are affected, or data is at risk
	SeverityWarning  Severity = "warning"  // it will be, or may be
)

// Servers returns the servers on the Redis of the service: the one that answers, and then the others.
func (c *Client) Servers(ctx context.Context) ([]PeerServer, error) {
	var found struct {
		Servers []PeerServer `json:"servers"`
	}
	_, err := c.call(ctx, request{what: "list the servers", method: http.MethodGet, path: []string{"servers"}}, &found)
	return found.Servers, err
}

// Problems returns what is wrong now, as far as the server that answers knows: critical problems first.
func (c *Client) Problems(ctx context.Context) ([]FoundProblem, error) {
	var found struct {
		Problems []FoundProblem `json:"problems"`
	}
	_, err := c.call(ctx, request{what: "list the problems", method: http.MethodGet, path: []string{"problems"}}, &found)
	return found.Problems, err
}
