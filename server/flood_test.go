package server_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/load"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
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

// TestFrameFloods sends frames that the server answers or buffers, and doesn't read the answers. Others are served.
func TestFrameFloods(t *testing.T) {
	t.Parallel()
	for name, flooding := range map[string]struct {
		send   func(*load.Flood) error
		closed bool // the server closes the connection
	}{
		"PING":         {func(c *load.Flood) error { return c.Pings(1000) }, true},
		"CONTINUATION": {func(c *load.Flood) error { return c.Continuations("/v1/info", 1000) }, true},
		// net/http answers many with one frame
		"SETTINGS": {func(c *load.Flood) error { return c.Settings(1000) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := servertest.Start(t)
			c, err := load.DialFlood(t.Context(), h.Addr, false)
			require.NoError(t, err)
			defer c.Close()
			for n := 0; err == nil && (n < 100 || flooding.closed); n++ {
				err = flooding.send(c)
			}
			require.Equal(t, flooding.closed, err != nil)
			require.Equal(t, 201, h.Do("PUT", "/v1/channels/d/messages/a", "1").Status, "others are served")
		})
	}
}
