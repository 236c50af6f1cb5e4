package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/load"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
)

// fill opens n connections that send nothing.
func fill(h *servertest.Harness, n int) []net.Conn {
	h.TB.Helper()
	var conns []net.Conn
	for range n {
		conns = append(conns, h.Connect(""))
	}
	require.Eventually(h.TB, func() bool { return server.Connections(h.Server) >= n }, servertest.Patience,
		servertest.Step)
	return conns
}

// TestConnectionLimit holds all connections. Until one is closed, others are refused, probes are served, and
// so is the admin listener.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	const limit = 5
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxConnections = limit })
	held := fill(h, limit)
	for _, call := range []string{"GET /v1/info", `POST /v1/channels/c/messages {"content":1}`, "GET /nothing"} {
		method, path, body := servertest.Cut(call)
		got := h.Do(method, path, body)
		require.True(t, got.Last, "the connection is closed")
		if path == "/nothing" {
			continue
		}
		got.Problem(503, fault.SlugOverloaded)
		require.Equal(t, "1", got.Header.Get("Retry-After"))
	}
	h.Do("PUT", "/channel/c/message/a", "1").OldError(503, "")
	for _, path := range []string{"/livez", "/readyz", "/healthz", "/probe/liveness", "/probe/readiness"} {
		got := h.Do("GET", path, "")
		require.Equal(t, 200, got.Status, path)
		require.True(t, got.Last)
	}
	page := string(h.OnAdmin().Do("GET", "/metrics", "").Body)
	// net/http keeps a connection open for a moment after its last answer.
	require.Regexp(t, `\ntidemark_http_connections ([5-9]|1\d)\n`, page)
	require.Contains(t, page, "\ntidemark_http_connections_refused_total 3\n")
	logged := h.Logs.Await(t, func(r servertest.Record) bool { return r.Message == "connection limit reached" })
	require.Equal(t, "5", logged.Attributes["limit"])

	require.False(t, h.OnAdmin().Do("GET", "/v1/info", "").Last)
	require.NoError(t, held[0].Close())
	require.Eventually(t, func() bool { return h.Do("GET", "/v1/info", "").Status == 200 }, servertest.Patience,
		servertest.Step)
	require.False(t, h.Do("GET", "/v1/info", "").Last, "it is kept again")
}

// TestConnectionLimitOnHTTP2: the refusal is an answer on a stream.
func TestConnectionLimitOnHTTP2(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxConnections = 1 })
	fill(h, 1)
	h.Client = servertest.Client(t, true)
	h.Do("GET", "/v1/info", "").Problem(503, fault.SlugOverloaded)
	require.Equal(t, 200, h.Do("GET", "/readyz", "").Status)
}

// TestReserveIsHeld holds the reserved connections too. Probes are still served, since the oldest connections are
// closed.
func TestReserveIsHeld(t *testing.T) {
	t.Parallel()
	const limit = 3
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxConnections = limit })
	fill(h, limit)
	reserved := fill(h, server.ReservedConnections)
	for range 10 {
		require.Equal(t, 200, h.Do("GET", "/readyz", "").Status)
		require.LessOrEqual(t, server.Connections(h.Server), limit+server.ReservedConnections)
	}
	_, err := bufio.NewReader(reserved[0]).ReadByte()
	require.ErrorIs(t, err, io.EOF, "the oldest was closed")
	c, err := load.DialFlood(t.Context(), h.Addr, true)
	require.NoError(t, err)
	c.Close()
}

// TestConnectionsAreCountedOnce opens and closes connections in every possible way.
func TestConnectionsAreCountedOnce(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxConnections = 100 })
	for range 20 {
		require.NoError(t, h.Connect("").Close())
		h.Raw("nonsense\r\n\r\n")
		h.Do("GET", "/livez", "", servertest.Header{Name: "Connection", Value: "close"})
		c, err := load.DialFlood(t.Context(), h.Addr, true)
		require.NoError(t, err)
		require.NoError(t, c.Gets("/livez", 3))
		c.Close()
		_, err = h.Connect("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").Read(make([]byte, 1))
		require.NoError(t, err)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		_, err := h.Try(t.Context(), method, "/livez", strings.NewReader(""))
		require.NoError(t, err)
	}
	h.Client.CloseIdleConnections()
	require.Eventually(t, func() bool { return server.Connections(h.Server) == 20 }, servertest.Patience,
		servertest.Step, "those that are kept open")
}

// TestConnectionsOfGRPC: they count like those of HTTP. Beyond the limit they are closed.
func TestConnectionsOfGRPC(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) { s.Limits.MaxConnections = 2 })
	held := fill(h, 1)
	get := func(f openmatch.FrontendServiceClient) codes.Code {
		_, err := f.GetTicket(t.Context(), &openmatch.GetTicketRequest{TicketId: "nobody"})
		return status.Code(err)
	}
	dial := func() openmatch.FrontendServiceClient {
		return openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL))
	}
	first, second := dial(), dial()
	require.Equal(t, codes.NotFound, get(first))
	require.Equal(t, 2, server.Connections(h.Server))
	require.Equal(t, codes.Unavailable, get(second))
	h.Do("GET", "/v1/info", "").Problem(503, fault.SlugOverloaded)
	require.NoError(t, held[0].Close())
	require.Eventually(t, func() bool { return get(second) == codes.NotFound }, servertest.Patience, servertest.Step)
	require.Equal(t, codes.NotFound, get(first))
}
