package redis

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
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
	return n.Number(t, "stats", "rejected_connections") > 0
}

// A connection that is being dialed while the address moves may have reached the former server: it isn't used.
func TestDialDuringAMove(t *testing.T) {
	t.Parallel()
	var dialed net.Conn
	_, m := follow(rueidis.ClientOption{
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			dialed, _ = net.Pipe()
			return dialed, nil
		},
	})
	first, err := m.links.dial(t.Context(), "", nil, nil)
	require.NoError(t, err)
	require.Equal(t, 1, m.links.close(time.Now()))
	_, err = first.Write([]byte{0})
	require.ErrorIs(t, err, io.ErrClosedPipe)

	m.links.moved = time.Now().Add(time.Hour) // it moves while the next one is dialed
	_, err = m.links.dial(t.Context(), "", nil, nil)
	require.ErrorIs(t, err, errMoved)
	require.True(t, transient(err))
	_, err = dialed.Write([]byte{0})
	require.ErrorIs(t, err, io.ErrClosedPipe)
}
