package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tidemark-dev/tidemark/wire"
)

// Description is what is known of a channel. Oldest is nil where no message is alive.
type Description = wire.Description

// SubscriberLag is a subscriber's mark and how far it is behind.
type SubscriberLag = wire.SubscriberLag

// Info tells of a server, what it keeps its channels in, and its limits.
type Info = wire.Info

// Page is a part of a channel's subscribers. The zero value is the first, as long as the service makes it.
type Page struct {
	Cursor string // of the answer before; empty: the first page
	Limit  int    // subscribers on it, about, at most 250; 0: the service's default, 100
}

// Describe tells of a channel and of the first page of its subscribers. Errors: ErrNoChannel, ErrInvalidChannel,
// ErrUnavailable.
func (c *Client) Describe(ctx context.Context, channel string) (Description, error) {
	return c.DescribePage(ctx, channel, Page{})
}

// DescribePage tells of a channel and of a page of its subscribers, after which those from the answer's Cursor on come,
// where it isn't empty. All pages together have every subscriber that is there all the time at least once; a subscriber
// can be on two pages, and a page can be empty. Errors: those of Describe, and ErrInvalidQuery.
func (c *Client) DescribePage(ctx context.Context, channel string, p Page) (Description, error) {
	var d Description
	r := request{what: "describe " + channel, method: http.MethodGet, path: []string{"channels", channel}, query: url.Values{}}
	if p.Cursor != "" {
		r.query.Set("cursor", p.Cursor)
	}
	if p.Limit != 0 {
		r.query.Set("limit", strconv.Itoa(p.Limit))
	}
	_, err := c.call(ctx, r, &d)
	return d, err
}

// Info tells of the service.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var i Info
	_, err := c.call(ctx, request{what: "ask for the service's info", method: http.MethodGet, path: []string{"info"}}, &i)
	return i, err
}
