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
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// startWithTLS returns a harness with TLS on all listeners, and the configuration of a client that trusts it.
func startWithTLS(t *testing.T, changes ...func(*servertest.Setup)) (*servertest.Harness, *tls.Config) {
	t.Helper()
	authority, err := certstest.New(t.TempDir())
	require.NoError(t, err)
	pair, err := authority.Issue("server")
	require.NoError(t, err)
	shown, err := certs.Open(certs.Files{Cert: pair.Cert, Key: pair.Key}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	trusting, err := authority.Client()
	require.NoError(t, err)
	h := servertest.Start(t, append(changes, func(s *servertest.Setup) { s.Certs = shown })...)
	secureClient(h, trusting, false)
	return h, trusting
}

// secureClient makes the harness send its requests with TLS.
func secureClient(h *servertest.Harness, trusting *tls.Config, http2 bool) {
	transport := &http.Transport{TLSClientConfig: trusting, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetHTTP2(http2)
	h.TB.Cleanup(transport.CloseIdleConnections)
	h.Client = &http.Client{Transport: transport}
}

// TestTLS publishes and waits over each protocol.
func TestTLS(t *testing.T) {
	t.Parallel()
	h, trusting := startWithTLS(t, servertest.WithQueues())
	for _, http2 := range []bool{false, true} {
		secureClient(h, trusting, http2)
		h.Subscribe("c", "s")
		polls := h.Waiting(t.Context(), 1, "GET "+servertest.At+"/messages?wait=1m")
		resp, err := h.Client.Post(h.URL+"/v1/channels/c/messages", "application/json",
			strings.NewReader(`{"content":1}`))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, 201, resp.StatusCode)
		require.Equal(t, http2, resp.ProtoMajor == 2)
		require.Equal(t, 200, (<-polls).Status)
		h.Do("DELETE", servertest.At, "")
	}
	conn, err := grpc.NewClient("passthrough:///"+h.GRPCAddr,
		grpc.WithTransportCredentials(credentials.NewTLS(trusting)))
	require.NoError(t, err)
	_, err = openmatch.NewFrontendServiceClient(conn).GetTicket(t.Context(),
		&openmatch.GetTicketRequest{TicketId: "nobody"})
	require.Equal(t, codes.NotFound, status.Code(err))
	require.NoError(t, conn.Close())
	_, err = openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, "")).GetTicket(t.Context(),
		&openmatch.GetTicketRequest{TicketId: "nobody"})
	require.Equal(t, codes.Unavailable, status.Code(err), "without TLS")
}

// TestRefusalsWithTLS: the answers of net/http itself are problems with TLS too, and so is the answer to a client
// without TLS.
func TestRefusalsWithTLS(t *testing.T) {
	t.Parallel()
	h, trusting := startWithTLS(t)
	conn, err := (&tls.Dialer{Config: trusting}).DialContext(t.Context(), "tcp", h.Addr)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/nonsense\r\n\r\n")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	servertest.Answer{TB: t, Status: resp.StatusCode, Header: resp.Header, Body: body}.Problem(400,
		fault.SlugInvalidRequest)
	_ = conn.Close() // the server has closed it

	plain := h.Raw("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.Contains(t, plain.Problem(400, fault.SlugInvalidRequest).Detail, "https://")
}

// TestUnfinishedHandshakes count as connections, and beyond the limit the oldest ones are closed.
func TestUnfinishedHandshakes(t *testing.T) {
	t.Parallel()
	const limit = 2
	h, trusting := startWithTLS(t, func(s *servertest.Setup) { s.Limits.MaxConnections = limit })
	var held []net.Conn
	for range limit {
		held = append(held, h.Connect("\x16\x03\x01")) // the beginning of a handshake
	}
	require.Eventually(t, func() bool { return server.Connections(h.Server) == limit }, servertest.Patience,
		servertest.Step)
	secureClient(h, trusting, true)
	require.Equal(t, 200, h.Do("GET", "/v1/info", "").Status)
	_, err := held[0].Read(make([]byte, 1))
	require.Error(t, err, "the oldest was closed")

	require.NotEmpty(t, h.Logs.AwaitMessage(t, "TLS handshake failed").Attributes["client"])
}
