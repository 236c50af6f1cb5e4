package main

import (
	"math"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
)

// TestLimitsOfTheProcess checks that the process sets a memory limit, not above the memory of the machine, and that it
// refuses requests while all of its connections are in use, but stays ready.
func TestLimitsOfTheProcess(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--data-dir", t.TempDir(), "--max-connections", "4")
	limit := s.metric(t, "go_gc_gomemlimit_bytes")
	require.Positive(t, limit)
	require.Less(t, limit, float64(math.MaxInt64)/1024)

	address, err := url.Parse(s.url)
	require.NoError(t, err)
	var held []net.Conn
	// a connection of an earlier request may be in use until the server has seen its end
	eventually(t, func() bool {
		for range 4 {
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address.Host)
			require.NoError(t, err)
			held = append(held, conn)
		}
		status, _ := s.request(t, http.MethodGet, s.url+"/v1/info", "")
		return status == http.StatusServiceUnavailable
	})
	require.True(t, s.ready(t))

	for _, conn := range held {
		require.NoError(t, conn.Close()) // the client tries again until then
	}
	_, err = s.Publish(t.Context(), "c", client.Draft{Content: []byte("1")})
	require.NoError(t, err)
}
