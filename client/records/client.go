package records

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Client calls a service's API for records. It is safe for concurrent use.
type Client struct {
	service *client.Client
}

// New returns a client that sends its calls through that of the service, with its retries, time-outs and credentials.
func New(service *client.Client) *Client { return &Client{service: service} }

// Kind describes one pattern of keys.
type Kind = wire.Kind

// Kinds returns the table of kinds.
func (c *Client) Kinds(ctx context.Context) ([]Kind, error) {
	var answer wire.Kinds
	_, err := c.service.Do(ctx, client.Call{What: "get the kinds of keys", Method: http.MethodGet,
		Path: []string{"kinds"}}, &answer)
	return answer.Kinds, err
}
