package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/config"
)

const defaultServer = "http://127.0.0.1:8080"

// connection is the flags of the commands that are clients of a service.
type connection struct {
	server string
	retry  time.Duration
}

// addConnection gives a command these flags. patience is how long it tries to reach the service by default.
func addConnection(cmd *cobra.Command, t terminal, patience time.Duration) *connection {
	c := &connection{}
	cmd.Flags().StringVar(&c.server, "server", cmp.Or(t.getenv(config.ServerVariable), defaultServer), "`URL` of the service, or host:port; "+config.ServerVariable+" changes the default")
	cmd.Flags().DurationVar(&c.retry, "retry-for", patience, "how long to try again where the service can't be reached or can't serve")
	return c
}

// checkedServer returns the URL of the service, for which host:port may stand.
func (c *connection) checkedServer() (string, error) {
	server := c.server
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	if strings.HasSuffix(strings.TrimRight(server, "/"), "/v1") {
		return "", fmt.Errorf("leave /v1 out of %q: the commands add it", c.server)
	}
	return server, nil
}

// open makes the client. The first of a row of failures is told on stderr, since trying again can take long.
func (c *connection) open(t terminal) (*client.Client, error) {
	policy := client.RetryPolicy{MaxElapsed: c.retry}
	if c.retry <= 0 {
		policy = client.RetryPolicy{MaxTries: 1}
	}
	var told time.Time // the commands make one call at a time
	policy.Notify = func(err error, _ time.Duration) {
		if time.Since(told) > c.retry { // then it isn't the same row
			t.tell("%v; trying again for %s", err, c.retry)
			told = time.Now()
		}
	}
	server, err := c.checkedServer()
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	cl, err := client.New(server, client.WithRetry(policy), client.WithUserAgent("tidemark-cli/"+thisBuild().version))
	if err != nil {
		return nil, usagef("--server: %w", err)
	}
	return cl, nil
}

// writeLine writes value as one line of JSON, in one write.
func writeLine(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(value)
}
