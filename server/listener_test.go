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
func (h *harness) fill(n int) []net.Conn {
	h.t.Helper()
	var conns []net.Conn
	for range n {
		conns = append(conns, h.connect(""))
	}
	require.Eventually(h.t, func() bool { return server.Connections(h.server) >= n }, servertest.Patience,
		servertest.Step)
	return conns
}

// TestConnectionLimit holds all connections. Until one is closed, others are refused, probes are served, and
// so is the admin listener.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	const limit = 5
	h := start(t, func(s *setup) { s.Limits.MaxConnections = limit })
	held := h.fill(limit)
	for _, call := range []string{"GET /v1/info", `POST /v1/channels/c/messages {"content":1}`, "GET /nothing"} {
		method, path, body := cut(call)
		got := h.do(method, path, body)
		require.True(t, got.last, "the connection is closed")
		if path == "/nothing" {
			continue
		}
		got.problem(503, fault.SlugOverloaded)
		require.Equal(t, "1", got.header.Get("Retry-After"))
	}
	h.do("PUT", "/channel/c/message/a", "1").oldError(503, "")
	for _, path := range []string{"/livez", "/readyz", "/probe/liveness", "/probe/readiness"} {
		got := h.do("GET", path, "")
		require.Equal(t, 200, got.status, path)
		require.True(t, got.last)
	}
	page := string(h.onAdmin().do("GET", "/metrics", "").body)
	// net/http keeps a connection open for a moment after its last answer.
	require.Regexp(t, `\ntidemark_http_connections ([5-9]|1\d)\n`, page)
	require.Contains(t, page, "\ntidemark_http_connections_refused_total 3\n")
	logged := h.logs.Await(t, func(r servertest.Record) bool { return r.Message == "connection limit reached" })
	require.Equal(t, "5", logged.Attributes["limit"])

	require.False(t, h.onAdmin().do("GET", "/v1/info", "").last)
	require.NoError(t, held[0].Close())
	require.Eventually(t, func() bool { return h.do("GET", "/v1/info", "").status == 200 }, servertest.Patience,
		servertest.Step)
	require.False(t, h.do("GET", "/v1/info", "").last, "it is kept again")
}

// TestConnectionLimitOnHTTP2: the refusal is an answer on a stream.
func TestConnectionLimitOnHTTP2(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.Limits.MaxConnections = 1 })
	h.fill(1)
	h.client = servertest.Client(t, true)
	h.do("GET", "/v1/info", "").problem(503, fault.SlugOverloaded)
	require.Equal(t, 200, h.do("GET", "/readyz", "").status)
}

// TestReserveIsHeld holds the reserved connections too. Probes are still served, since the oldest connections are
// closed.
func TestReserveIsHeld(t *testing.T) {
	t.Parallel()
	const limit = 3
	h := start(t, func(s *setup) { s.Limits.MaxConnections = limit })
	h.fill(limit)
	reserved := h.fill(server.ReservedConnections)
	for range 10 {
		require.Equal(t, 200, h.do("GET", "/readyz", "").status)
		require.LessOrEqual(t, server.Connections(h.server), limit+server.ReservedConnections)
	}
	_, err := bufio.NewReader(reserved[0]).ReadByte()
	require.ErrorIs(t, err, io.EOF, "the oldest was closed")
	c, err := load.DialFlood(t.Context(), h.addr, true)
	require.NoError(t, err)
	c.Close()
}

// TestConnectionsAreCountedOnce opens and closes connections in every possible way.
func TestConnectionsAreCountedOnce(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.Limits.MaxConnections = 100 })
	for range 20 {
		require.NoError(t, h.connect("").Close())
		h.raw("nonsense\r\n\r\n")
		h.do("GET", "/livez", "", header{"Connection", "close"})
		c, err := load.DialFlood(t.Context(), h.addr, true)
		require.NoError(t, err)
		require.NoError(t, c.Gets("/livez", 3))
		c.Close()
		_, err = h.connect("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").Read(make([]byte, 1))
		require.NoError(t, err)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		_, err := h.try(t.Context(), method, "/livez", strings.NewReader(""))
		require.NoError(t, err)
	}
	h.client.CloseIdleConnections()
	require.Eventually(t, func() bool { return server.Connections(h.server) == 20 }, servertest.Patience,
		servertest.Step, "those that are kept open")
}

// TestConnectionsOfGRPC count as those of HTTP do. Beyond the limit they are closed.
func TestConnectionsOfGRPC(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues(), func(s *setup) { s.Limits.MaxConnections = 2 })
	held := h.fill(1)
	get := func(f openmatch.FrontendServiceClient) codes.Code {
		_, err := f.GetTicket(t.Context(), &openmatch.GetTicketRequest{TicketId: "nobody"})
		return status.Code(err)
	}
	dial := func() openmatch.FrontendServiceClient {
		return openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.grpcAddr, h.url))
	}
	first, second := dial(), dial()
	require.Equal(t, codes.NotFound, get(first))
	require.Equal(t, 2, server.Connections(h.server))
	require.Equal(t, codes.Unavailable, get(second))
	h.do("GET", "/v1/info", "").problem(503, fault.SlugOverloaded)
	require.NoError(t, held[0].Close())
	require.Eventually(t, func() bool { return get(second) == codes.NotFound }, servertest.Patience, servertest.Step)
	require.Equal(t, codes.NotFound, get(first))
}
