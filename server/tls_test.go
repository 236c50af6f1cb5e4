package server_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/certs/certstest"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
)

// startWithTLS returns a harness with TLS on all listeners, and the configuration of a client that trusts it.
func startWithTLS(t *testing.T, changes ...func(*setup)) (*harness, *tls.Config) {
	t.Helper()
	authority, err := certstest.New(t.TempDir())
	require.NoError(t, err)
	pair, err := authority.Issue("server")
	require.NoError(t, err)
	shown, err := certs.Open(certs.Files{Cert: pair.Cert, Key: pair.Key}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	trusting, err := authority.Client()
	require.NoError(t, err)
	h := start(t, append(changes, func(s *setup) { s.certs = shown })...)
	h.secureClient(trusting, false)
	return h, trusting
}

// secureClient makes the harness send its requests with TLS.
func (h *harness) secureClient(trusting *tls.Config, http2 bool) {
	transport := &http.Transport{TLSClientConfig: trusting, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	h.t.Cleanup(transport.CloseIdleConnections)
	h.client = &http.Client{Transport: transport}
}

// TestTLS publishes and waits over each protocol.
func TestTLS(t *testing.T) {
	t.Parallel()
	h, trusting := startWithTLS(t, withQueues())
	for _, http2 := range []bool{false, true} {
		h.secureClient(trusting, http2)
		h.subscribe("c", "s")
		polls := h.waiting(t.Context(), 1, "GET "+at+"/messages?wait=1m")
		resp, err := h.client.Post(h.url+"/v1/channels/c/messages", "application/json",
			strings.NewReader(`{"content":1}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 201, resp.StatusCode)
		require.Equal(t, http2, resp.ProtoMajor == 2)
		require.Equal(t, 200, (<-polls).status)
		h.do("DELETE", at, "")
	}
	conn, err := grpc.NewClient("passthrough:///"+h.grpcAddr,
		grpc.WithTransportCredentials(credentials.NewTLS(trusting)))
	require.NoError(t, err)
	_, err = openmatch.NewFrontendServiceClient(conn).GetTicket(t.Context(),
		&openmatch.GetTicketRequest{TicketId: "nobody"})
	require.Equal(t, codes.NotFound, status.Code(err))
	require.NoError(t, conn.Close())
	_, err = openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.grpcAddr, "")).GetTicket(t.Context(),
		&openmatch.GetTicketRequest{TicketId: "nobody"})
	require.Equal(t, codes.Unavailable, status.Code(err), "without TLS")
}

// TestRefusalsWithTLS: what net/http answers by itself is a problem there too, and so is the answer to a client without
// TLS.
func TestRefusalsWithTLS(t *testing.T) {
	t.Parallel()
	h, trusting := startWithTLS(t)
	conn, err := (&tls.Dialer{Config: trusting}).DialContext(t.Context(), "tcp", h.addr)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/nonsense\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	answer{t: t, status: resp.StatusCode, header: resp.Header, body: body}.problem(400, fault.SlugInvalidRequest)
	_ = conn.Close() // the server has closed it

	plain := h.raw("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Contains(t, plain.problem(400, fault.SlugInvalidRequest).Detail, "https://")
}

// TestUnfinishedHandshakes count as connections, and beyond the limit the oldest ones are closed.
func TestUnfinishedHandshakes(t *testing.T) {
	t.Parallel()
	const limit = 2
	h, trusting := startWithTLS(t, func(s *setup) { s.Limits.MaxConnections = limit })
	var held []net.Conn
	for range limit + server.ReservedConnections {
		held = append(held, h.connect("\x16\x03\x01")) // the beginning of a handshake
	}
	require.Eventually(t, func() bool { return server.Connections(h.server) == len(held) }, servertest.Patience,
		servertest.Step)
	h.secureClient(trusting, true)
	require.Equal(t, 200, h.do("GET", "/readyz", "").status)
	h.do("GET", "/v1/info", "").problem(503, fault.SlugOverloaded)
	_, err := held[limit].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	require.NotEmpty(t, h.logs.AwaitMessage(t, "TLS handshake failed").Attributes["client"])
}
