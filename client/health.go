package client

import (
	"context"
	"net/http"
)

// Ready returns nil if the server can serve requests: it reaches its storage, and isn't shutting down. Errors:
// ErrDraining, ErrUnavailable, ErrUnreachable. It needs no credential, and is retried like other calls.
func (c *Client) Ready(ctx context.Context) error { return c.probe(ctx, "check readiness", "readyz") }

// Live returns nil if the server answers, also while it can't serve requests. Error: ErrUnreachable.
func (c *Client) Live(ctx context.Context) error {
	return c.probe(ctx, "check that it answers", "livez")
}

func (c *Client) probe(ctx context.Context, what, path string) error {
	_, err := c.call(ctx, request{what: what, method: http.MethodGet, path: []string{path}, isProbe: true}, nil)
	return err
}
