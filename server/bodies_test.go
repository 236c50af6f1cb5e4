package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/wire"
)

// batch is the body of a publish of one message, padded to size bytes.
func batch(size int) string {
	const head, tail = `[{"content":1}`, `]`
	return head + strings.Repeat(" ", size-len(head)-len(tail)) + tail
}

// connect opens a connection, and sends text as it is.
func (h *harness) connect(text string) net.Conn {
	h.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(h.t.Context(), "tcp", h.addr)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
	_, err = io.WriteString(conn, text)
	require.NoError(h.t, err)
	return conn
}

// statusOn reads an answer from a connection.
func statusOn(t *testing.T, conn net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// createLarge creates a ticket of so many bytes over gRPC.
func (h *harness) createLarge(size int) error {
	f := openmatch.NewFrontendServiceClient(servertest.GRPC.Dial(h.t, "", h.url))
	fields := &openmatch.SearchFields{Tags: []string{strings.Repeat("x", size)}}
	_, err := f.CreateTicket(h.t.Context(),
		&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{SearchFields: fields}})
	return err
}

// TestBodyMemory stalls as many large bodies as fit into the memory. Further large ones are refused until memory is
// free again; small ones never are.
func TestBodyMemory(t *testing.T) {
	t.Parallel()
	const size, request = 100 << 10, "POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\n"
	body := batch(size)
	for name, message := range map[string]string{
		"with a length": fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", request, size, body),
		"chunked":       fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", request, size, body),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, withQueues(), func(s *setup) {
				s.Limits.MaxBodyBytes, s.Limits.BodyMemory = size,
					3*(size+1)
			})
			const short = 20
			var stalled []net.Conn
			for range 3 {
				stalled = append(stalled, h.connect(message[:len(message)-short]))
			}
			publish := func() answer { return h.do("POST", "/v1/channels/c/messages", body) }
			require.Eventually(t, func() bool { return server.BodyBytes(h.server) >= 3*size }, servertest.Patience,
				servertest.Step)
			refused := publish()
			refused.problem(503, fault.SlugOverloaded)
			require.Equal(t, "1", refused.header.Get("Retry-After"))
			require.Equal(t, 201, h.do("PUT", "/v1/channels/c/messages/a", `"`+strings.Repeat("x", 900)+`"`).status)

			create := func() error { return h.createLarge(size - 100) }
			require.Equal(t, codes.Unavailable, status.Code(create()), "gRPC calls use the same memory")

			for _, conn := range stalled {
				_, err := io.WriteString(conn, message[len(message)-short:])
				require.NoError(t, err)
				require.Equal(t, 201, statusOn(t, conn))
			}
			require.Equal(t, 201, publish().status)
			require.NoError(t, create())
			require.Eventually(t, func() bool { return server.BodyBytes(h.server) == 0 }, servertest.Patience,
				servertest.Step)
		})
	}
}

// TestBodyMemoryIsReturned ends requests with large bodies in every possible way.
func TestBodyMemoryIsReturned(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	body := batch(100 << 10)
	for status, failure := range map[int]func(context.Context, string) error{
		201: func(context.Context, string) error { return nil },
		503: func(context.Context, string) error { return fault.ErrUnavailable },
		500: func(context.Context, string) error { panic("in a handler") },
	} {
		h.store.intercept(failure)
		require.Equal(t, status, h.do("POST", fmt.Sprint("/v1/channels/c", status, "/messages"), body).status)
	}
	h.store.intercept(func(context.Context, string) error { panic(http.ErrAbortHandler) })
	_, err := h.try(t.Context(), "POST", "/v1/channels/c/messages", strings.NewReader(body))
	require.Error(t, err)
	h.store.fail(nil)
	for _, call := range []string{"POST " + at + "/ack", "POST /v1/tickets", "PUT /v1/queues/q"} {
		method, path, _ := cut(call)
		require.Equal(t, 400, h.onAdmin().do(method, path, body).status, call)
	}
	require.NoError(t, h.createLarge(len(body)))
	h.raw("POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"+body).problem(
		400, fault.SlugInvalidBody)
	require.Eventually(t, func() bool { return server.BodyBytes(h.server) == 0 }, servertest.Patience, servertest.Step)
}

// TestBodyLimit: a body may have as many bytes as allowed, announced or not, and what is refused changes nothing.
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit, path = 2000, "/v1/channels/c/messages"
	h := start(t, func(s *setup) { s.Limits.MaxBodyBytes = limit })
	for size, status := range map[int]int{limit: 201, limit + 1: 413} {
		require.Equal(t, status, h.do("POST", path, batch(size)).status)
		got, err := h.try(t.Context(), "POST", path, io.MultiReader(strings.NewReader(batch(size)))) // without a length
		require.NoError(t, err)
		require.Equal(t, status, got.status)
	}
	h.do("PUT", "/channel/c/message/b", batch(limit+1)).oldError(413, "")
	require.EqualValues(t, 2, decode[wire.Description](h.do("GET", "/v1/channels/c", "")).Clock)
	require.Equal(t, server.DefaultMaxBodyBytes,
		decode[wire.Info](start(t).do("GET", "/v1/info", "")).Limits.MaxBodyBytes)
}

// TestIncompleteBody: an incomplete body is refused, and a large one that arrives in parts is accepted.
func TestIncompleteBody(t *testing.T) {
	t.Parallel()
	h := start(t)
	const post = "POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\n"
	h.raw(post+"Content-Length: 100\r\n\r\n{\"content\":1").problem(400, fault.SlugInvalidBody)
	h.do("GET", "/v1/channels/c", "").problem(404, fault.SlugNoChannel)
	const n = 900
	large := "[" + strings.Repeat(`{"content":"`+strings.Repeat("x", 300)+`"},`, n-1) + `{"content":1}]`
	for _, body := range []io.Reader{strings.NewReader(large), io.MultiReader(strings.NewReader(large))} {
		got, err := h.try(t.Context(), "POST", "/v1/channels/c/messages", body)
		require.NoError(t, err)
		require.Equal(t, 201, got.status, "%s", got.body)
		require.Len(t, decode[[]wire.Published](got), n)
	}
}

// TestTooLargeBodyIsRead sends all of a body that is too large, and then reads the answer.
func TestTooLargeBodyIsRead(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.Limits.MaxBodyBytes = 2000 })
	const size, request = 6 << 20, "POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\n"
	body := batch(size)
	for name, message := range map[string]string{
		"with a length": fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", request, size, body),
		"chunked":       fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", request, size, body),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, 413, statusOn(t, h.connect(message)))
		})
	}
	t.Run("with an expectation", func(t *testing.T) {
		t.Parallel()
		conn := h.connect(fmt.Sprintf("%sContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", request, size))
		require.Equal(t, 413, statusOn(t, conn), "no body is asked for")
	})
}
