package cli

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/program/config"
)

const (
	defaultServer = "http://127.0.0.1:8080"
	defaultAdmin  = "http://127.0.0.1:8081"
)

// Connection holds the flags of a command that is a client of a service.
type Connection struct {
	cmd      *cobra.Command
	terminal Terminal
	flag     string // that names the service: --server, or --admin
	server   string
	admin    string // the admin address to ask instead; empty: none
	retry    time.Duration
	token    tokenFlags
	tls      tlsFlags
}

// AddConnection adds these flags to a command. patience is how long it tries to reach the service by default.
func AddConnection(cmd *cobra.Command, t Terminal, patience time.Duration) *Connection {
	c := &Connection{cmd: cmd, terminal: t, flag: "server"}
	cmd.Flags().StringVar(&c.server, c.flag, cmp.Or(t.Getenv(config.ServerVariable), defaultServer),
		"`URL` the service's URL, or host:port; "+config.ServerVariable+" changes the default")
	c.addFlags(patience)
	return c
}

// AddAdministration is AddConnection for a command that needs the service's admin address.
func AddAdministration(cmd *cobra.Command, t Terminal, patience time.Duration) *Connection {
	c := &Connection{cmd: cmd, terminal: t, flag: AdminFlag}
	cmd.Flags().StringVar(&c.server, c.flag, cmp.Or(t.Getenv(config.AdminVariable), defaultAdmin),
		"`URL` the URL of the service's admin address, host:port, or unix:PATH; "+config.AdminVariable+" changes the default")
	c.addFlags(patience)
	return c
}

// OrAdministration adds a flag to a command of AddConnection that makes it ask the service's admin address.
func (c *Connection) OrAdministration() {
	c.cmd.Flags().StringVar(&c.admin, AdminFlag, "", "`URL` ask the service at its admin address, instead of --server")
	c.cmd.Flags().Lookup(AdminFlag).Annotations = map[string][]string{config.ConnectionFlag: {}}
}

// AdminFlag is the flag of commands that need the service's admin address.
const AdminFlag = "admin"

func (c *Connection) addFlags(patience time.Duration) {
	c.token.add(c.cmd.Flags())
	c.tls.add(c.cmd.Flags())
	c.cmd.Flags().DurationVar(&c.retry, "retry-for", patience,
		"how long to try again if the service can't be reached or can't serve")
	for _, name := range []string{c.flag, "token", "token-file", "ca-file", "cert-file", "key-file", "retry-for"} {
		c.cmd.Flags().Lookup(name).Annotations = map[string][]string{config.ConnectionFlag: {}}
	}
}

// Handle makes the command run do with a client of the service.
func (c *Connection) Handle(do func(ctx context.Context, service *client.Client, args []string) error) {
	c.cmd.RunE = func(cmd *cobra.Command, args []string) error {
		service, err := c.Open()
		if err != nil {
			return err
		}
		defer service.Close()
		return do(cmd.Context(), service, args)
	}
}

// Open returns a client of the service, with additional options. The first of several failures in a row is reported on
// standard error, since trying again can take long.
func (c *Connection) Open(more ...client.Option) (*client.Client, error) {
	if c.admin != "" {
		if c.cmd.Flags().Changed(c.flag) {
			return nil, Usagef("--%s and --%s can't be combined", AdminFlag, c.flag)
		}
		c.flag, c.server = AdminFlag, c.admin
	}
	policy := client.RetryPolicy{MaxElapsed: c.retry}
	if c.retry <= 0 {
		policy = client.RetryPolicy{MaxTries: 1}
	}
	var reported time.Time // the commands make one call at a time
	policy.Notify = func(err error, _ time.Duration) {
		if time.Since(reported) > c.retry { // a new row of failures
			c.terminal.Report("%v; trying again for %s", err, c.retry)
			reported = time.Now()
		}
	}
	server, err := c.checkedServer()
	if err != nil {
		return nil, Usagef("--%s: %w", c.flag, err)
	}
	token, err := c.token.source(c.terminal)
	if err != nil {
		return nil, err
	}
	transport, err := c.tls.transport(server)
	if err != nil {
		return nil, err
	}
	options := []client.Option{client.WithTokenSource(token), client.WithRetry(policy),
		client.WithUserAgent("tidemark-cli/" + c.terminal.Version)}
	if transport != nil {
		options = append(options, client.WithHTTPClient(&http.Client{Transport: transport}))
	}
	options = append(options, more...)
	service, err := client.New(server, options...)
	if err != nil {
		return nil, Usagef("--%s: %w", c.flag, err)
	}
	return service, nil
}

// Target is a service as a proxy reaches it.
type Target struct {
	URL       *url.URL // without a path
	Transport *http.Transport
	Token     func(context.Context) (string, error) // "": there is none
}

// Target returns the service of the flags, for a proxy. Open returns the errors of the flags, so it is called first.
func (c *Connection) Target() (Target, error) {
	server, err := c.checkedServer()
	if err != nil {
		return Target{}, err
	}
	t := Target{}
	if t.Token, err = c.token.source(c.terminal); err != nil {
		return Target{}, err
	}
	if t.Transport, err = c.tls.transport(server); err != nil {
		return Target{}, err
	}
	if t.Transport == nil {
		t.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	if path, isSocket := strings.CutPrefix(server, config.UnixPrefix); isSocket {
		server = "http://localhost"
		t.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}
	}
	t.URL, err = url.Parse(server)
	return t, err
}

// checkedServer returns the URL of the service, which may be given as host:port.
func (c *Connection) checkedServer() (string, error) {
	server := c.server
	if strings.HasPrefix(server, "unix:") {
		return server, nil
	}
	if !strings.Contains(server, "://") && c.tls.set() {
		server = "https://" + server
	} else if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	if strings.HasSuffix(strings.TrimRight(server, "/"), "/v1") {
		return "", fmt.Errorf("leave /v1 out of %q: the commands add it", c.server)
	}
	return server, nil
}
