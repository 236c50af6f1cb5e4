package grpc_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestPings: a connection of the listener of gRPC with too frequent PINGs is closed, also without calls, and others
// aren't.
func TestPings(t *testing.T) {
	t.Parallel()
	const sent = 20
	for apart, want := range map[time.Duration]http2.ErrCode{time.Nanosecond: http2.ErrCodeNo, time.Hour: http2.ErrCodeEnhanceYourCalm} {
		h := start(t, func(s *grpc.Services) { grpc.LimitConnections(s, apart, time.Hour) })
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", h.address)
		require.NoError(t, err)
		_, err = conn.Write([]byte(http2.ClientPreface))
		require.NoError(t, err)
		framer := http2.NewFramer(conn, conn)
		require.NoError(t, framer.WriteSettings())
		for range sent {
			require.NoError(t, framer.WritePing(false, [8]byte{}))
		}
		answered, ended := 0, http2.ErrCodeNo
		for answered < sent && ended == http2.ErrCodeNo {
			frame, err := framer.ReadFrame()
			require.NoError(t, err)
			switch f := frame.(type) {
			case *http2.PingFrame:
				answered++
			case *http2.GoAwayFrame:
				ended = f.ErrCode
			}
		}
		require.Equal(t, want, ended, "%d of %d PINGs were answered", answered, sent)
		require.NoError(t, conn.Close())
	}
}

// TestIdleConnections checks that idle connections of the listener of gRPC are closed, and those with a waiting call
// are not.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *grpc.Services) { grpc.LimitConnections(s, time.Hour, 50*time.Millisecond) })
	f := h.frontend(servertest.Native)
	id := h.newID(f)
	busy := h.watch(f, id)
	h.awaitWaiting(1)
	idle := h.dial(servertest.Native).(*grpcgo.ClientConn)
	idle.Connect()
	ctx, cancel := context.WithTimeout(t.Context(), servertest.Patience)
	defer cancel()
	for state, ready := idle.GetState(), false; !ready || state != connectivity.Idle; state = idle.GetState() {
		ready = ready || state == connectivity.Ready
		require.True(t, idle.WaitForStateChange(ctx, state), "%s for ever", state)
	}
	h.matches.assign(id, "host:1")
	require.Equal(t, "host:1", (<-busy.received).GetAssignment().GetConnection())
	h.drain()
}
