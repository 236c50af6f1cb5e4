package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/redact"
)

// Client calls one Tidemark service. It is safe for concurrent use. Make one and share it: it keeps connections open
// between calls.
type Client struct {
	base string // without a slash at its end
	own  bool   // http was made by New
	settings
}

// New returns a client of the service at baseURL, such as http://127.0.0.1:8080 or https://example.com/tidemark, or
// unix:PATH for a Unix socket. It doesn't connect yet. The error is about baseURL.
func New(baseURL string, opts ...Option) (*Client, error) {
	socket, isSocket := strings.CutPrefix(baseURL, "unix:")
	if isSocket {
		baseURL = "http://localhost"
	} else {
		socket = ""
	}
	u, err := url.Parse(baseURL)
	switch {
	case err != nil:
		return nil, errors.New("the service's URL can't be parsed") // the error of url.Parse may contain a password
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the service's URL %q doesn't start with http:// or https://", redact.URL(baseURL))
	case u.Host == "":
		return nil, fmt.Errorf("the service's URL %q has no host", redact.URL(baseURL))
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the service's URL %q has a query or a fragment", redact.URL(baseURL))
	case isSocket && socket == "":
		return nil, errors.New("the service's URL unix: has no path")
	}
	c := &Client{base: strings.TrimRight(u.String(), "/")}
	c.userAgent, c.timeout = "tidemark-go", 30*time.Second
	for _, opt := range opts {
		opt(&c.settings)
	}
	c.retry = c.retry.withDefaults()
	if c.own = c.http == nil; c.own {
		c.http = &http.Client{Transport: newTransport(socket)}
	}
	if c.http.CheckRedirect == nil {
		unredirected := *c.http
		unredirected.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.http = &unredirected
	}
	if t, ok := c.http.Transport.(*http.Transport); ok && t.MaxConnsPerHost > 0 {
		c.pollOnly = true
	}
	return c, nil
}

// newTransport returns a transport that keeps a connection open for each of many calls that wait at the same time.
// Unless socket is "" all of them are connections to that Unix socket.
func newTransport(socket string) http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 1000, 1000
	if socket != "" {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	t.DialContext = dialer(t.DialContext).http1
	return t
}

// Close closes idle connections. With WithHTTPClient it has no effect: the connections belong to that client.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}
