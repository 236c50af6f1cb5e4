package client

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/wire"
)

// Description is what is known of a channel. Oldest is nil where no message is alive.
type Description = wire.Description

// SubscriberLag is a subscriber's mark and how far it is behind.
type SubscriberLag = wire.SubscriberLag

// Info tells of a server, what it keeps its channels in, and its limits.
type Info = wire.Info

// Describe tells of a channel. Errors: ErrNoChannel, ErrInvalidChannel, ErrUnavailable.
func (c *Client) Describe(ctx context.Context, channel string) (Description, error) {
	var d Description
	r := request{what: "describe " + channel, method: http.MethodGet, path: []string{"channels", channel}}
	_, err := c.call(ctx, r, &d)
	return d, err
}

// Info tells of the service.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var i Info
	_, err := c.call(ctx, request{what: "ask for the service's info", method: http.MethodGet, path: []string{"info"}}, &i)
	return i, err
}
