package main

import (
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
)

// TestConnectionLimit holds all connections of a process that it serves. It says so to others, and stays ready.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--data-dir", t.TempDir(), "--max-connections", "4")
	address, err := url.Parse(s.url)
	require.NoError(t, err)
	var held []net.Conn
	for range 4 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address.Host)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }() // it may be closed already
		held = append(held, conn)
	}
	require.Eventually(t, func() bool { return s.metric(t, "tidemark_http_connections") >= 5 }, scriptLimit, scriptStep)
	require.True(t, ready(t, s.url))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/info", nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)

	require.NoError(t, held[0].Close()) // the client tries again until then
	_, err = s.Publish(t.Context(), "c", client.Draft{Content: []byte("1")})
	require.NoError(t, err)
}
