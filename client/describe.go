package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Description describes a channel. Oldest is nil if no message is alive.
type Description = wire.Description

// SubscriberLag is a subscriber's mark and lag.
type SubscriberLag = wire.SubscriberLag

// Info describes a server, its storage and its limits.
type Info = wire.Info

// Page selects a part of a channel's subscribers. The zero value is the first page, of the default size.
type Page struct {
	Cursor string // of the previous answer; empty: the first page
	Limit  int    // about how many subscribers, at most 250; 0: the service's default, 100
}

// Describe returns a description of a channel, with the first page of its subscribers. Errors: ErrNoChannel,
// ErrInvalidChannel, ErrUnavailable.
func (c *Client) Describe(ctx context.Context, channel string) (Description, error) {
	return c.DescribePage(ctx, channel, Page{})
}

// DescribePage returns a description of a channel, with a page of its subscribers. If the answer's Cursor isn't empty,
// it selects the next page. Every subscriber that exists all the time is on at least one page; it can be on two, and a
// page can be empty. Errors: those of Describe, and ErrInvalidQuery.
func (c *Client) DescribePage(ctx context.Context, channel string, p Page) (Description, error) {
	var d Description
	r := request{what: "describe " + channel, method: http.MethodGet, path: []string{"channels", channel},
		query: url.Values{}}
	if p.Cursor != "" {
		r.query.Set("cursor", p.Cursor)
	}
	if p.Limit != 0 {
		r.query.Set("limit", strconv.Itoa(p.Limit))
	}
	_, err := c.call(ctx, r, &d)
	return d, err
}

// Info returns the description of the server, its storage and its limits.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var i Info
	_, err := c.call(ctx, request{what: "get the service's info", method: http.MethodGet, path: []string{"info"}}, &i)
	return i, err
}
