package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/clock"
)

// Description describes a channel. Oldest is nil if no message is alive.
type Description struct {
	Channel         string          `json:"channel"`
	Epoch           string          `json:"epoch"`
	Clock           clock.Clock     `json:"clock"`                 // of the last message
	Oldest          *clock.Clock    `json:"oldest,omitempty"`      // of the oldest message alive; left out if there is none
	Live            uint64          `json:"live"`                  // number of clocks from oldest to clock, both included
	TTLMillis       int64           `json:"ttlMs"`                 // remaining life of the channel without activity
	Closed          bool            `json:"closed,omitempty"`      // it gets no further messages
	ContentType     string          `json:"contentType,omitempty"` // media type of all messages; left out if each has its own
	TTL             string          `json:"ttl,omitempty"`         // life without reads and writes, as a Go duration; left out if it is the policy's
	Ends            time.Time       `json:"ends,omitzero"`         // when it ends at the latest, in Redis time; left out if it has no end
	SubscriberCount uint64          `json:"subscriberCount"`       // with those that expired recently
	Subscribers     []SubscriberLag `json:"subscribers"`           // one page, by name
	Cursor          string          `json:"cursor,omitempty"`      // of the next page; left out on the last
}

// SubscriberLag is a subscriber's mark and lag.
type SubscriberLag struct {
	Name string      `json:"name"`
	Mark clock.Clock `json:"mark"`
	Lag  uint64      `json:"lag"` // messages published after the mark, alive or expired
}

// Info describes a server, its storage and its limits.
type Info struct {
	Version string  `json:"version"`
	Access  string  `json:"access"` // "open", or "credentials" if requests need them
	Storage Storage `json:"storage"`
	Limits  Limits  `json:"limits"`
	Queues  int     `json:"queues,omitempty"` // number of queues; left out without matchmaking
	// Differences is left out if all servers on the same Redis are configured alike.
	Differences Differences `json:"differences,omitzero"`
}

// Differences counts the parts of the configuration that another server on the same Redis defines differently. The log
// names them.
type Differences struct {
	Queues   int `json:"queues"`
	Channels int `json:"channels"` // rules
	Kinds    int `json:"kinds"`    // of records
}

// Storage describes the storage of the channels, as found at start-up.
type Storage struct {
	Kind       string     `json:"kind"`    // "managed", "standalone", "sentinel" or "cluster"
	Product    string     `json:"product"` // "redis" or "valkey"
	Version    string     `json:"version"` // of the product
	Durability Durability `json:"durability"`
}

// Durability describes how durable the storage is.
type Durability struct {
	Level          string   `json:"level"` // "always", "everysec", "snapshot", "memory" or "unknown"
	AppendOnly     bool     `json:"appendOnly"`
	Fsync          string   `json:"fsync"`
	Replicas       int      `json:"replicas"`
	EvictionPolicy string   `json:"evictionPolicy"`
	MaxMemoryBytes int64    `json:"maxMemoryBytes"` // 0: no limit
	Warnings       []string `json:"warnings"`       // what an operator should change
}

// Limits are the limits of one request.
type Limits struct {
	MaxChannelBytes int   `json:"maxChannelBytes"` // of channel names
	MaxNameBytes    int   `json:"maxNameBytes"`    // of subscriber names and message IDs
	MaxBodyBytes    int64 `json:"maxBodyBytes"`    // of a request
	MaxBatch        int   `json:"maxBatch"`        // messages in one publish
	DefaultMax      int   `json:"defaultMax"`      // messages in a fetch without a max
	MaxMax          int   `json:"maxMax"`          // the largest max of a fetch
	MaxFetchBytes   int   `json:"maxFetchBytes"`   // bytes of contents in the answer to a fetch; one message is always returned
	MaxWaitMillis   int64 `json:"maxWaitMs"`       // the longest wait of a fetch
}

// Page selects a part of a channel's subscribers. The zero value is the first page, of the default size.
type Page struct {
	Cursor string // of the previous answer; empty: the first page
	Limit  int    // about how many subscribers; 0: the service's default, 100. At most 250, of Connected 1000
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
		query: p.query()}
	_, err := c.call(ctx, r, &d)
	return d, err
}

func (p Page) query() url.Values {
	query := url.Values{}
	if p.Cursor != "" {
		query.Set("cursor", p.Cursor)
	}
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	return query
}

// Info returns the description of the server, its storage and its limits.
func (c *Client) Info(ctx context.Context) (Info, error) {
	var i Info
	_, err := c.call(ctx, request{what: "get the service's info", method: http.MethodGet, path: []string{"info"}}, &i)
	return i, err
}
