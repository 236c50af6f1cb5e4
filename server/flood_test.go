package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestRapidReset opens and resets streams of long polls in a loop. Their handlers don't return, so that all handlers
// that the server starts for the connection can be counted.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	const streams = 50
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxStreams = streams })
	h.Subscribe("c", "s")
	var running atomic.Int64
	release := make(chan struct{})
	h.Store.Intercept(func(_ context.Context, call string) error {
		if call == "Fetch" {
			running.Add(1)
			defer running.Add(-1)
			<-release
		}
		return nil
	})
	c, err := load.DialFlood(t.Context(), h.Addr, true)
	require.NoError(t, err)
	defer c.Close()
	for err == nil { // until the server has closed the connection
		err = c.Resets(servertest.At+"/messages?wait=1m", 100)
	}
	<-c.Ended()
	require.LessOrEqual(t, running.Load(), int64(streams))
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/d/messages/a", "1").Status, "others are served")
	close(release)
	require.Eventually(t, func() bool { return running.Load() == 0 }, servertest.Patience, servertest.Step)
}

// TestStreamsOfAConnection opens more streams than the server accepts, and keeps them open.
func TestStreamsOfAConnection(t *testing.T) {
	t.Parallel()
	const streams = 50
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxStreams = streams })
	h.Subscribe("c", "s")
	c, err := load.DialFlood(t.Context(), h.Addr, true)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Gets(servertest.At+"/messages?wait=1m", 4*streams))
	require.Eventually(t, func() bool { waiting, _ := h.Service.Waiting(); return waiting == streams },
		servertest.Patience, servertest.Step)
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/d/messages/a", "1").Status, "others are served")
	waiting, _ := h.Service.Waiting()
	require.Equal(t, streams, waiting)
}

// TestFrameFloods sends frames that the server answers or buffers, and doesn't read the answers, until the server closes
// the connection. Others are served.
func TestFrameFloods(t *testing.T) {
	t.Parallel()
	for name, flooding := range map[string]struct {
		send    func(*load.Flood) error
		limited bool // by the rate of frames alone; net/http ends the others, too
	}{
		"PING":         {func(c *load.Flood) error { return c.Pings(1000) }, true},
		"SETTINGS":     {func(c *load.Flood) error { return c.Settings(1000) }, true},
		"CONTINUATION": {func(c *load.Flood) error { return c.Continuations("/v1/info", 1000) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servertest.Start(t)
			c, err := load.DialFlood(t.Context(), h.Addr, false)
			require.NoError(t, err)
			defer c.Close()
			for err == nil {
				err = flooding.send(c)
			}
			require.Equal(t, 201, h.Do("PUT", "/v1/channels/d/messages/a", "1").Status, "others are served")
			if !flooding.limited {
				return
			}
			metrics := string(h.OnAdmin().Do("GET", "/metrics", "").Body)
			for _, outcome := range []string{"slowed", "closed"} {
				require.Contains(t, metrics, fmt.Sprintf("tidemark_http_frame_floods_total{outcome=%q} 1\n", outcome))
			}
			require.Contains(t, h.Logs.Text(t), `level=INFO msg="too many HTTP/2 frames"`)
		})
	}
}

// TestFrameFloodsWithTLS sends SETTINGS frames to each listener. They are slowed, as they are without TLS.
func TestFrameFloodsWithTLS(t *testing.T) {
	t.Parallel()
	h, trusting := startWithTLS(t, servertest.WithQueues())
	trusting = trusting.Clone()
	trusting.NextProtos = []string{"h2"}
	for n, address := range []string{h.Addr, h.GRPCAddr, h.OnAdmin().Addr} {
		conn, err := (&tls.Dialer{Config: trusting}).DialContext(t.Context(), "tcp", address)
		require.NoError(t, err)
		c, err := load.NewFlood(conn, true)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		require.NoError(t, c.Settings(5000)) // more than a slow machine reads within the limit
		counter := fmt.Sprintf("tidemark_http_frame_floods_total{outcome=\"slowed\"} %d\n", n+1)
		require.Eventually(t, func() bool {
			return strings.Contains(string(h.OnAdmin().Do("GET", "/metrics", "").Body), counter)
		}, servertest.Patience, servertest.Step)
	}
}

// TestBusyConnection sends many requests on one HTTP/2 connection, and cancels polls: its frames are within the limit.
func TestBusyConnection(t *testing.T) {
	t.Parallel()
	const clients, requests = 20, 100
	h := servertest.Start(t)
	h.Client = servertest.Client(t, true)
	h.Subscribe("c", "s")
	var busy sync.WaitGroup
	for range clients {
		busy.Go(func() {
			for range requests {
				if got, err := h.Try(t.Context(), "GET", "/v1/channels/c", http.NoBody); err != nil || got.Status != 200 {
					t.Errorf("status %d, %v", got.Status, err)
				}
			}
		})
	}
	busy.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	polls := h.Waiting(ctx, clients, "GET "+servertest.At+"/messages?wait=1m")
	cancel()
	for range clients {
		<-polls
	}
	require.NotContains(t, string(h.OnAdmin().Do("GET", "/metrics", "").Body), "tidemark_http_frame_floods_total{")
}
