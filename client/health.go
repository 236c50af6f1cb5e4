package client

import (
	"context"
	"fmt"
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
	var answer struct {
		Status string `json:"status"`
	}
	r := request{what: what, method: http.MethodGet, path: []string{path}, isProbe: true}
	if _, err := c.call(ctx, r, &answer); err != nil {
		return err
	}
	if answer.Status == "" { // such as the page of a proxy, or of another program
		return fmt.Errorf("%s: the answer isn't that of a Tidemark service", what)
	}
	return nil
}
