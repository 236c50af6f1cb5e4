package redis

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// TestEndOfARequestWhileRedisIsFull: a request ends just when Redis has refused the connection that is opened for it. The
// request fails, and later ones are served.
func TestEndOfARequestWhileRedisIsFull(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	o, err := Options{URL: n.URL(), Timeout: DefaultTimeout}.client()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	dialed := o.DialCtxFn
	o.DialCtxFn = func(c context.Context, to string, d *net.Dialer, config *tls.Config) (net.Conn, error) {
		conn, err := dialed(c, to, d, config)
		if isFull(t, n) {
			cancel()
		}
		return conn, err
	}
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	defer client.Close()
	set := func(maxClients string) {
		require.NoError(t, n.Do(t, "CONFIG", "SET", "maxclients", maxClients).Error())
	}
	set("1")
	require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "normal").Error())
	for ctx.Err() == nil {
		_ = client.Do(ctx, client.B().Ping().Build())
	}
	set("100")
	for err = context.Canceled; err != nil; {
		err = client.Do(t.Context(), client.B().Ping().Build()).Error()
	}
}

// isFull reports whether Redis has refused a connection.
func isFull(t *testing.T, n *redistest.Node) bool {
	t.Helper()
	text, err := n.Do(t, "INFO", "stats").ToString()
	require.NoError(t, err)
	return !strings.Contains(text, "rejected_connections:0\r\n")
}
