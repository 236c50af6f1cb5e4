package server_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/load"
	"github.com/tidemark-dev/tidemark/test/servertest"
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

// occupy holds n connections by requests in progress, until release is called.
func occupy(h *servertest.Harness, n int) (release func()) {
	h.TB.Helper()
	h.Subscribe("c", "s")
	ctx, cancel := context.WithCancel(h.TB.Context())
	h.Waiting(ctx, n, "GET "+servertest.At+"/messages?wait=1m")
	require.Eventually(h.TB, func() bool { return server.Connections(h.Server) >= n }, servertest.Patience,
		servertest.Step)
	return cancel
}

// TestConnectionLimit holds all connections. Until one is no longer in use, others are refused, probes are served, and
// so is the admin listener.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	const limit = 5
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxConnections = limit })
	occupy(h, limit-1)
	release := occupy(h, 1)
	h.Client = servertest.Client(t, false)
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
	release()
	require.Eventually(t, func() bool { return h.Do("GET", "/v1/info", "").Status == 200 }, servertest.Patience,
		servertest.Step)
	require.False(t, h.Do("GET", "/v1/info", "").Last, "it is kept again")
}

// TestConnectionsOfProxiesStay: a client that opens one connection after the other takes none of a proxy's.
func TestConnectionsOfProxiesStay(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) {
		s.Limits.MaxConnections = 3
		s.Clients.TrustProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	proxy := fill(h, 1)[0]
	greedy := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	var opened [5]net.Conn
	for i := range opened {
		conn, err := greedy.DialContext(t.Context(), "tcp", h.Addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		opened[i] = conn
	}
	for _, conn := range opened[:3] {
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "it gave way to a later one")
	}
	_, err := io.WriteString(proxy, "GET /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(proxy), nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
}

// TestConnectionLimitOnHTTP2: the refusal is an answer on a stream.
func TestConnectionLimitOnHTTP2(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxConnections = 1 })
	occupy(h, 1)
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
	occupy(h, limit)
	h.Client = servertest.Client(t, false)
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

// TestStrangersGiveWay: clients without a credential that keep all connections open, silently or by probes, shut nobody
// out, on any listener. What isn't admitted is answered for the last time while all places are taken.
func TestStrangersGiveWay(t *testing.T) {
	t.Parallel()
	const probe = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	people := new(servertest.People)
	closed := servertest.Closed(t, people)
	people.Add(t, "root", servertest.Everything)
	people.Add(t, "player", `[{"actions":["subscribe"]}]`)
	h := servertest.Start(t, closed, servertest.WithQueues(),
		func(s *servertest.Setup) { s.Limits.MaxConnections = server.AdminConnections })
	for name, c := range map[string]struct {
		at   *servertest.Harness
		call string
	}{
		"public": {h, "GET /v1/channels/c"}, "admin": {h.OnAdmin(), "GET /v1/revocations"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []net.Conn
			for range server.AdminConnections - 1 {
				asked = append(asked, c.at.Connect(probe))
				require.Equal(t, 200, servertest.StatusOn(t, asked[len(asked)-1]))
			}
			c.at.Connect("") // sends nothing
			c.at.Client = servertest.Client(t, false)
			method, path, _ := servertest.Cut(c.call)
			for range 3 {
				got := c.at.Do(method, path, "", servertest.Bearer("root"))
				require.NotContains(t, []int{401, 503}, got.Status)
				require.False(t, got.Last, "the connection is kept")
			}
			_, err := asked[0].Read(make([]byte, 1))
			require.Error(t, err, "it has given way")
			_, err = io.WriteString(asked[1], probe)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(asked[1]), nil)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.True(t, resp.Close, "its next answer is the last one")
		})
	}
}

// TestPlayersLeaveRoomForAdministrators: who has a credential without the right to administer can't keep the admin
// listener's connections.
func TestPlayersLeaveRoomForAdministrators(t *testing.T) {
	t.Parallel()
	people := new(servertest.People)
	closed := servertest.Closed(t, people)
	people.Add(t, "root", servertest.Everything)
	people.Add(t, "player", `[{"actions":["subscribe"]}]`)
	h := servertest.Start(t, closed)
	h.Do("PUT", servertest.At, "{}", servertest.Bearer("player"))
	admin := h.OnAdmin()
	for range server.AdminConnections {
		admin.Connect("GET " + servertest.At + "/messages?wait=1m HTTP/1.1\r\nHost: localhost\r\n" +
			"Authorization: Bearer player\r\n\r\n")
	}
	require.Eventually(t, func() bool {
		waiting, _ := h.Service.Waiting()
		return waiting == server.AdminConnections
	}, servertest.Patience, servertest.Step)
	require.Equal(t, 200, admin.Do("GET", "/v1/revocations", "", servertest.Bearer("root")).Status)
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

// TestConnectionsOfGRPC: they count like those of HTTP. If all are in use, further ones are closed.
func TestConnectionsOfGRPC(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) { s.Limits.MaxConnections = 1 })
	get := func(f openmatch.FrontendServiceClient) codes.Code {
		_, err := f.GetTicket(t.Context(), &openmatch.GetTicketRequest{TicketId: "nobody"})
		return status.Code(err)
	}
	dial := func() openmatch.FrontendServiceClient {
		return openmatch.NewFrontendServiceClient(servertest.Native.Dial(t, h.GRPCAddr, h.URL))
	}
	idle, busy := dial(), dial()
	require.Equal(t, codes.NotFound, get(idle))
	require.Eventually(t, func() bool { return get(busy) == codes.NotFound }, servertest.Patience, servertest.Step,
		"the idle connection gives way")
	require.Equal(t, 1, server.Connections(h.Server))
	entered, release := make(chan struct{}), make(chan struct{})
	h.Store.Intercept(func(context.Context, string) error {
		close(entered)
		<-release
		return nil
	})
	created := make(chan error)
	go func() {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "tidemark-ticket-id", "mine")
		_, err := busy.CreateTicket(ctx, &openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{}})
		created <- err
	}()
	<-entered
	require.Equal(t, codes.Unavailable, get(idle), "the other one is in use")
	h.Client = servertest.Client(t, false)
	h.Do("GET", "/v1/info", "").Problem(503, fault.SlugOverloaded)
	h.Store.Fail(nil)
	close(release)
	require.NoError(t, <-created)
	require.Eventually(t, func() bool { return get(idle) == codes.NotFound }, servertest.Patience, servertest.Step)
}
