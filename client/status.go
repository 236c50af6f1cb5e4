package client

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// The calls of this file are answered on the service's admin address only.

// PeerServer describes a server on the same Redis.
type PeerServer = wire.PeerServer

// FoundProblem is something that is wrong now.
type FoundProblem = wire.FoundProblem

// Servers returns the servers on the Redis of the service: the one that answers, and then the others.
func (c *Client) Servers(ctx context.Context) ([]PeerServer, error) {
	var found wire.Servers
	_, err := c.call(ctx, request{what: "list the servers", method: http.MethodGet, path: []string{"servers"}}, &found)
	return found.Servers, err
}

// Problems returns what is wrong now, as far as the server that answers knows: critical problems first.
func (c *Client) Problems(ctx context.Context) ([]FoundProblem, error) {
	var found wire.Problems
	_, err := c.call(ctx, request{what: "list the problems", method: http.MethodGet, path: []string{"problems"}}, &found)
	return found.Problems, err
}
