package records

import (
	"context"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// Client calls a service's API for records. It is safe for concurrent use.
type Client struct {
	service *client.Client
}

// New returns a client that sends its calls through that of the service, with its retries, time-outs and credentials.
func New(service *client.Client) *Client { return &Client{service: service} }

// Kind describes one pattern of keys.
type Kind struct {
	Name      string   `json:"name"`
	Pattern   string   `json:"pattern"`
	Type      string   `json:"type"` // of the value in Redis
	Form      string   `json:"form"`
	TTL       Duration `json:"ttl,omitzero"`        // the longest; 0: the key is permanent
	Permanent string   `json:"permanent,omitempty"` // why
	Secret    bool     `json:"secret"`
	MaxBytes  int      `json:"maxBytes"`
	Redis     string   `json:"redis"` // which one has the keys
}

// Duration is a time.Duration, which JSON has as a text such as "1h30m0s".
type Duration time.Duration

// MarshalText returns the text.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses the text.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// Kinds returns the table of kinds.
func (c *Client) Kinds(ctx context.Context) ([]Kind, error) {
	var answer struct {
		Kinds []Kind `json:"kinds"`
	}
	_, err := c.service.Do(ctx, client.Call{What: "get the kinds of keys", Method: http.MethodGet,
		Path: []string{"kinds"}}, &answer)
	return answer.Kinds, err
}
