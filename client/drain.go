package client

import (
	"context"
	"net/http"
)

// Drained is whether the server that answers drains.
type Drained struct {
	Draining bool `json:"draining"`
}

// Drain sends the clients of the server that answers to other servers, until Resume or its end: readiness fails,
// fetches that wait return, and streams and WebSockets end. It goes on to serve all requests, but ends those that wait
// early. It is answered on the service's admin address only, and may be repeated. Errors: ErrDraining if the server
// shuts down.
func (c *Client) Drain(ctx context.Context) error { return c.changeDrain(ctx, "drain") }

// Resume ends Drain. Errors: ErrDraining if the server shuts down.
func (c *Client) Resume(ctx context.Context) error { return c.changeDrain(ctx, "resume") }

func (c *Client) changeDrain(ctx context.Context, how string) error {
	var done Drained
	_, err := c.call(ctx, request{what: how + " the server", method: http.MethodPost, path: []string{how}}, &done)
	return err
}
