package web_test

import (
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

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// batch is the body of a publish of one message, padded to size bytes.
func batch(size int) string {
	const head, tail = `[{"content":1}`, `]`
	return head + strings.Repeat(" ", size-len(head)-len(tail)) + tail
}

// createLarge creates a ticket of the given size in bytes over gRPC.
func createLarge(h *servertest.Harness, size int) error {
	f := openmatch.NewFrontendServiceClient(servertest.GRPC.Dial(h.TB, "", h.URL))
	fields := &openmatch.SearchFields{Tags: []string{strings.Repeat("x", size)}}
	_, err := f.CreateTicket(h.TB.Context(),
		&openmatch.CreateTicketRequest{Ticket: &openmatch.Ticket{SearchFields: fields}})
	return err
}

// TestBodyMemory stalls as many large bodies of different clients as fit into the memory. Further large ones are
// refused until memory is free again; small ones never are.
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
			h := servertest.Start(t, servertest.WithQueues(), func(s *servertest.Setup) {
				s.Limits.MaxBodyBytes, s.Limits.BodyMemory = size,
					3*(size+1)
			})
			const short = 20
			var stalled []net.Conn
			for n := range byte(3) {
				stalled = append(stalled, h.ConnectFrom(n+2, message[:len(message)-short]))
			}
			publish := func() servertest.Answer { return h.Do("POST", "/v1/channels/c/messages", body) }
			require.Eventually(t, func() bool { return h.BodyBytes() >= 3*size }, servertest.Patience,
				servertest.Step)
			refused := publish()
			refused.Problem(503, fault.SlugOverloaded)
			require.Equal(t, "1", refused.Header.Get("Retry-After"))
			require.Equal(t, 201, h.Do("PUT", "/v1/channels/c/messages/a", `"`+strings.Repeat("x", 900)+`"`).Status)

			create := func() error { return createLarge(h, size-100) }
			require.Equal(t, codes.Unavailable, status.Code(create()), "gRPC calls use the same memory")

			for _, conn := range stalled {
				_, err := io.WriteString(conn, message[len(message)-short:])
				require.NoError(t, err)
				require.Equal(t, 201, servertest.StatusOn(t, conn))
			}
			require.Equal(t, 201, publish().Status)
			require.NoError(t, create())
			require.Eventually(t, func() bool { return h.BodyBytes() == 0 }, servertest.Patience,
				servertest.Step)
		})
	}
}

// TestBodyMemoryOfOneClient stalls as many large bodies of one client as it may. Its further ones are refused, and
// those of others aren't.
func TestBodyMemoryOfOneClient(t *testing.T) {
	t.Parallel()
	const size, path = 100 << 10, "/v1/channels/c/messages"
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.BodyMemory = 8 * (size + 1) })
	body := batch(size)
	message := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, size, body)
	var stalled []net.Conn
	for range 2 {
		stalled = append(stalled, h.ConnectFrom(2, message[:len(message)-1]))
	}
	require.Eventually(t, func() bool { return h.BodyBytes() >= 2*size }, servertest.Patience, servertest.Step)
	refused := h.ConnectFrom(2, message)
	require.Equal(t, 429, servertest.StatusOn(t, refused))
	require.Equal(t, 201, h.Do("POST", path, body).Status, "of another client")
	for _, conn := range stalled {
		_, err := io.WriteString(conn, message[len(message)-1:])
		require.NoError(t, err)
		require.Equal(t, 201, servertest.StatusOn(t, conn))
	}
	require.Equal(t, 201, servertest.StatusOn(t, h.ConnectFrom(2, message)))
}

// TestBodyMemoryIsReturned ends requests with large bodies in every possible way.
func TestBodyMemoryIsReturned(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	body := batch(100 << 10)
	for status, failure := range map[int]func(context.Context, string) error{
		201: func(context.Context, string) error { return nil },
		503: func(context.Context, string) error { return fault.ErrUnavailable },
		500: func(context.Context, string) error { panic("in a handler") },
	} {
		h.Store.Intercept(failure)
		require.Equal(t, status, h.Do("POST", fmt.Sprint("/v1/channels/c", status, "/messages"), body).Status)
	}
	h.Store.Intercept(func(context.Context, string) error { panic(http.ErrAbortHandler) })
	_, err := h.Try(t.Context(), "POST", "/v1/channels/c/messages", strings.NewReader(body))
	require.Error(t, err)
	h.Store.Fail(nil)
	for _, call := range []string{"POST " + servertest.At + "/ack", "POST /v1/tickets", "PUT /v1/queues/q"} {
		method, path, _ := servertest.Cut(call)
		require.Equal(t, 400, h.OnAdmin().Do(method, path, body).Status, call)
	}
	require.NoError(t, createLarge(h, len(body)))
	h.Raw("POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n"+body).Problem(
		400, fault.SlugInvalidBody)
	require.Eventually(t, func() bool { return h.BodyBytes() == 0 }, servertest.Patience, servertest.Step)
}

// TestBodyLimit: a body may have as many bytes as allowed, announced or not, and refused bodies change nothing.
func TestBodyLimit(t *testing.T) {
	t.Parallel()
	const limit, path = 2000, "/v1/channels/c/messages"
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxBodyBytes = limit })
	for size, status := range map[int]int{limit: 201, limit + 1: 413} {
		require.Equal(t, status, h.Do("POST", path, batch(size)).Status)
		got, err := h.Try(t.Context(), "POST", path, io.MultiReader(strings.NewReader(batch(size)))) // without a length
		require.NoError(t, err)
		require.Equal(t, status, got.Status)
	}
	h.Do("PUT", "/channel/c/message/b", batch(limit+1)).OldError(413, "")
	require.EqualValues(t, 2, servertest.Decode[client.Description](h.Do("GET", "/v1/channels/c", "")).Clock)
	require.Equal(t, server.DefaultMaxBodyBytes,
		servertest.Decode[client.Info](servertest.Start(t).Do("GET", "/v1/info", "")).Limits.MaxBodyBytes)
}

// TestIncompleteBody: an incomplete body is refused, and a large one that arrives in parts is accepted.
func TestIncompleteBody(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	const post = "POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\n"
	h.Raw(post+"Content-Length: 100\r\n\r\n{\"content\":1").Problem(400, fault.SlugInvalidBody)
	h.Do("GET", "/v1/channels/c", "").Problem(404, fault.SlugNoChannel)
	const n = 250
	large := "[" + strings.Repeat(`{"content":"`+strings.Repeat("x", 990)+`"},`, n-1) + `{"content":1}]`
	for _, body := range []io.Reader{strings.NewReader(large), io.MultiReader(strings.NewReader(large))} {
		got, err := h.Try(t.Context(), "POST", "/v1/channels/c/messages", body)
		require.NoError(t, err)
		require.Equal(t, 201, got.Status, "%s", got.Body)
		require.Len(t, servertest.Decode[[]client.Published](got), n)
	}
}

// TestTooLargeBodyIsRead sends all of a body that is too large, and then reads the answer.
func TestTooLargeBodyIsRead(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, func(s *servertest.Setup) { s.Limits.MaxBodyBytes = 2000 })
	const size, request = 6 << 20, "POST /v1/channels/c/messages HTTP/1.1\r\nHost: localhost\r\n"
	body := batch(size)
	for name, message := range map[string]string{
		"with a length": fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", request, size, body),
		"chunked":       fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", request, size, body),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, 413, servertest.StatusOn(t, h.Connect(message)))
		})
	}
	t.Run("with an expectation", func(t *testing.T) {
		t.Parallel()
		conn := h.Connect(fmt.Sprintf("%sContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", request, size))
		require.Equal(t, 413, servertest.StatusOn(t, conn), "no body is asked for")
	})
}
