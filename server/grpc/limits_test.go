package grpc_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server/grpc"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
)

// stalled begins a call on the listener of gRPC whose message doesn't arrive completely. It returns what the call ends with.
func (h *harness) stalled(id string) (ended <-chan string) {
	h.t.Helper()
	reader, writer := io.Pipe()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, "http://"+h.address+openmatch.FrontendService_CreateTicket_FullMethodName, reader)
	require.NoError(h.t, err)
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("X-Request-Id", id)
	client, codes := servertest.Client(h.t, true), make(chan string, 1)
	go func() {
		defer close(codes)
		response, err := client.Do(request)
		if err != nil {
			return // the test has ended
		}
		_, _ = io.Copy(io.Discard, response.Body) // until the end
		_ = response.Body.Close()
		codes <- response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status")
	}()
	_, err = writer.Write(envelope(0, maxBodyBytes, []byte("a part")))
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = writer.Close() })
	return codes
}

// TestSlowMessages are refused when they take too long, and the oldest of too many slow ones. Other calls go on.
func TestSlowMessages(t *testing.T) {
	t.Parallel()
	t.Run("too long", func(t *testing.T) {
		t.Parallel()
		h := start(t, func(s *grpc.Services) { grpc.LimitArrivals(s, 100*time.Millisecond, 20*time.Millisecond, 10) })
		require.Equal(t, "4", <-h.stalled("slow"))
		require.Equal(t, "408", h.logs.Request(t, "slow").Attributes["status"])
		h.newID(h.frontend(servertest.Native))
	})
	t.Run("too many", func(t *testing.T) {
		t.Parallel()
		h := start(t, func(s *grpc.Services) { grpc.LimitArrivals(s, time.Hour, 20*time.Millisecond, 2) })
		first := h.stalled("first")
		for _, id := range []string{"second", "third"} {
			h.stalled(id)
		}
		require.Equal(t, "4", <-first)
		w := h.watch(h.frontend(servertest.Native), h.newID(h.frontend(servertest.Native)))
		h.awaitWaiting(1)
		<-time.After(200 * time.Millisecond) // a call whose message has arrived may last
		h.drain()
		isError(t, w.ends(t), codes.Unavailable, "the server is shutting down")
	})
}
