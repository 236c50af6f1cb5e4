package grpc_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// answer is an answer of the HTTP port.
type answer struct {
	status      int
	header      http.Header
	grpc, error string // of gRPC and gRPC-Web
	body        string
}

// call posts a message to a path. The headers are alternating names and values.
func (h *harness) call(t testing.TB, http2 bool, path, contentType string, body []byte, headers ...string) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+path, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Tidemark-Queue", "q")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := servertest.Client(t, http2).Do(request)
	require.NoError(t, err)
	data, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return answer{
		status: response.StatusCode, header: response.Header, body: string(data),
		grpc: statusField(response, "Grpc-Status"), error: statusField(response, "Grpc-Message"),
	}
}

func compressed(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// TestGRPCFramesOverHTTP1 reads gRPC's answers on HTTP/1.1 as bytes: each message has its prefix, and the status is in
// the trailers.
func TestGRPCFramesOverHTTP1(t *testing.T) {
	t.Parallel()
	h := start(t)
	id := h.newID(h.frontend(servertest.Native))
	h.matches.assign(id, "host:1")
	named := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		require.NoError(t, err)
		return envelope(0, len(data), data)
	}
	got := h.call(t, false, openmatch.FrontendService_GetTicket_FullMethodName, "application/grpc",
		named(&openmatch.GetTicketRequest{TicketId: id}))
	require.Equal(t, http.StatusOK, got.status)
	require.Equal(t, "0", got.grpc)
	var ticket openmatch.Ticket
	require.NoError(t, proto.Unmarshal([]byte(got.body)[5:], &ticket))
	require.Equal(t, string(envelope(0, proto.Size(&ticket), nil)), got.body[:5])
	require.Equal(t, id, ticket.GetId())

	h.matches.set(func() { delete(h.matches.tickets, id) }) // the watch has no ticket to wait for
	got = h.call(t, false, openmatch.FrontendService_WatchAssignments_FullMethodName, "application/grpc",
		named(&openmatch.WatchAssignmentsRequest{TicketId: id}))
	require.Equal(t, []string{"200", "5", ""}, []string{strconv.Itoa(got.status), got.grpc, got.body})

	const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	require.Equal(t, http.StatusHTTPVersionNotSupported, h.call(t, false, reflection, "application/grpc", nil).status,
		"a stream of requests needs HTTP/2")
}

// TestConnectByGet: calls that only read can be made by GET, as Connect specifies it.
func TestConnectByGet(t *testing.T) {
	t.Parallel()
	h := start(t)
	id := h.newID(h.frontend(servertest.Native))
	get := func(procedure, query string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+procedure+"?"+query, nil)
		require.NoError(t, err)
		response, err := servertest.Client(t, false).Do(request)
		require.NoError(t, err)
		data, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode, string(data)
	}
	message := func(id string) string {
		return "connect=v1&encoding=json&message=" + url.QueryEscape(fmt.Sprintf(`{"ticketId":%q}`, id))
	}
	status, body := get(openmatch.FrontendService_GetTicket_FullMethodName, message(id))
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, id)
	status, body = get(openmatch.FrontendService_GetTicket_FullMethodName, message("none"))
	require.Equal(t, http.StatusNotFound, status, body)
	require.JSONEq(t, `{"code":"not_found","message":"Ticket id: none not found"}`, body)
	status, body = get(openmatch.FrontendService_GetTicket_FullMethodName, message(strings.Repeat("x", 5<<10)))
	require.Equal(t, http.StatusTooManyRequests, status, body)
	status, body = get(openmatch.FrontendService_GetTicket_FullMethodName, "encoding=json&message=%7B")
	require.Equal(t, http.StatusBadRequest, status, body)
	status, body = get(openmatch.FrontendService_DeleteTicket_FullMethodName, message(id))
	require.Equal(t, http.StatusMethodNotAllowed, status, body)
}

// TestStatusesOfJSONPaths: the HTTP status of an error is that of grpc-gateway. In a stream it is that of the log.
func TestStatusesOfJSONPaths(t *testing.T) {
	t.Parallel()
	h := start(t)
	for code, want := range map[codes.Code][2]int{
		codes.Canceled: {499, 504}, codes.Unknown: {500, 500}, codes.InvalidArgument: {400, 400},
		codes.DeadlineExceeded: {504, 504}, codes.NotFound: {404, 404}, codes.AlreadyExists: {409, 409},
		codes.PermissionDenied: {403, 403}, codes.ResourceExhausted: {429, 413}, codes.FailedPrecondition: {400, 409},
		codes.Aborted: {409, 409}, codes.OutOfRange: {400, 400}, codes.Unimplemented: {501, 501},
		codes.Internal: {500, 500}, codes.Unavailable: {503, 503}, codes.DataLoss: {500, 500},
		codes.Unauthenticated: {401, 401},
	} {
		h.matches.set(func() { h.matches.fail = func() error { return status.Error(code, "why") } })
		const path = "/v1/frontendservice/tickets/some"
		require.Equal(t, map[string]any{"error": "why", "code": float64(code), "message": "why"},
			h.answers(want[0], "GET", path, ""), code)
		line := h.answers(want[1], "GET", path+"/assignments", "")["error"].(map[string]any)
		require.InDelta(t, float64(code), line["grpc_code"], 0)
		require.InDelta(t, want[1], line["http_code"], 0)
	}
}

// TestAnswersAreNotCompressed: compressing a large answer would cost more than sending it, and the client decides how
// often it is sent.
func TestAnswersAreNotCompressed(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.addTickets("large", 1, 64<<10)
	message, text := mustMarshal(t, &openmatch.GetTicketRequest{TicketId: "large0"}), []byte(`{"ticketId":"large0"}`)
	const procedure = openmatch.FrontendService_GetTicket_FullMethodName
	for name, got := range map[string]answer{
		"gRPC": h.call(t, true, procedure, "application/grpc", envelope(0, len(message), message),
			"Grpc-Accept-Encoding", "gzip"),
		"compressed gRPC": h.call(t, true, procedure, "application/grpc",
			envelope(1, len(compressed(t, message)), compressed(t, message)), "Grpc-Encoding", "gzip"),
		"Connect": h.call(t, false, procedure, "application/json", text, "Accept-Encoding", "gzip"),
		"JSON paths": h.call(t, false, "/v1/frontendservice/tickets", "application/json",
			[]byte(`{"ticket":{"search_fields":{"tags":["`+strings.Repeat("x", 64<<10)+`"]}}}`), "Accept-Encoding", "gzip"),
	} {
		require.Equal(t, http.StatusOK, got.status, "%s: %s", name, got.body)
		require.Greater(t, len(got.body), 64<<10, name)
		require.Empty(t, got.header.Get("Content-Encoding"), name)
	}
}

// TestCompressedMessagesThatAreTooLarge: a message that is too large when it is decompressed is refused at its limit,
// which is that of its procedure: what follows isn't read. Here it isn't valid.
func TestCompressedMessagesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	h := start(t)
	const short = 4 << 10 // of procedures with small messages
	for _, c := range []struct {
		rpc, json string
		limit     int
	}{
		{openmatch.FrontendService_CreateTicket_FullMethodName, "/v1/frontendservice/tickets", maxBodyBytes},
		{openmatch.BackendService_ReleaseAllTickets_FullMethodName, "/v1/backendservice/tickets:releaseall", short},
		{openmatch.QueryService_QueryTickets_FullMethodName, "/v1/queryservice/tickets:query", maxBodyBytes},
		{openmatch.FrontendService_WatchAssignments_FullMethodName, "", short},
	} {
		bomb := compressed(t, bytes.Repeat([]byte(" "), c.limit+(1<<20)))
		bomb = bomb[:len(bomb)-20]
		refused := fmt.Sprintf("the message has more than %d bytes", c.limit)
		if c.json != "" {
			got := h.call(t, false, c.json, "application/json", bomb, "Content-Encoding", "gzip")
			require.Contains(t, got.body, refused, c.json)
			require.Contains(t, got.body, `code":8`, c.json)
		}
		framed := envelope(1, len(bomb), bomb)
		for _, protocol := range []string{"application/grpc", "application/grpc-web", "application/grpc+json"} {
			got := h.call(t, protocol != "application/grpc-web", c.rpc, protocol, framed, "Grpc-Encoding", "gzip")
			if protocol == "application/grpc-web" {
				require.Contains(t, got.body+got.error, refused, c.rpc)
				continue
			}
			require.Equal(t, []string{"8", refused}, []string{got.grpc, got.error}, "%s %s", protocol, c.rpc)
		}
		got := h.call(t, false, c.rpc, "application/json", bomb, "Content-Encoding", "gzip")
		if got.status == http.StatusUnsupportedMediaType { // a stream
			got = h.call(t, false, c.rpc, "application/connect+json", framed, "Connect-Content-Encoding", "gzip")
		}
		require.Contains(t, got.body, refused, c.rpc)
		require.Contains(t, got.body, "resource_exhausted", c.rpc)
	}
}

// TestMemoryOfMessages: what the calls of a client have sent counts as memory of bodies until they end, with its size
// when it is decompressed, so that a client that sends many calls at the same time is refused and others aren't.
func TestMemoryOfMessages(t *testing.T) {
	t.Parallel()
	h := start(t)
	const size, share = 70 << 10, bodyMemory / 4 // of one client
	ticket := []byte(`{"ticket":{"search_fields":{"tags":["` + strings.Repeat("x", size) + `"]}}}`)
	small := compressed(t, ticket)
	large := &openmatch.Ticket{SearchFields: &openmatch.SearchFields{Tags: []string{strings.Repeat("x", size)}}}
	message := compressed(t, mustMarshal(t, &openmatch.CreateTicketRequest{Ticket: large}))
	native := h.frontend(servertest.Native)
	for name, create := range map[string]func() bool{
		"JSON": func() bool {
			return h.call(t, false, "/v1/frontendservice/tickets", "application/json", ticket).status == http.StatusOK
		},
		"compressed JSON": func() bool {
			return h.call(t, false, "/v1/frontendservice/tickets", "application/json", small,
				"Content-Encoding", "gzip").status == http.StatusOK
		},
		"gRPC on its listener": func() bool {
			_, err := native.CreateTicket(t.Context(), &openmatch.CreateTicketRequest{Ticket: large})
			return err == nil
		},
		"compressed gRPC": func() bool {
			return h.call(t, true, openmatch.FrontendService_CreateTicket_FullMethodName, "application/grpc",
				envelope(1, len(message), message), "Grpc-Encoding", "gzip").grpc == "0"
		},
	} {
		var waiting, refused atomic.Int64
		entered, leave := make(chan struct{}, 1), make(chan struct{})
		end := sync.OnceFunc(func() { close(leave) })
		t.Cleanup(end) // of a failed test
		h.matches.set(func() {
			h.matches.creating = func() {
				waiting.Add(1)
				entered <- struct{}{}
				<-leave
			}
		})
		var calls errgroup.Group
		for refused.Load() == 0 { // each waits, or is refused
			ended := make(chan bool, 1)
			calls.Go(func() error {
				ended <- create()
				return nil
			})
			select {
			case <-entered:
				require.LessOrEqual(t, waiting.Load()*size, int64(share), name)
			case ok := <-ended:
				require.False(t, ok, name)
				refused.Add(1)
			}
		}
		require.Greater(t, waiting.Load()*size, int64(share/2), "%s: a client can use its share", name)
		h.matches.set(func() { h.matches.creating = nil })
		require.True(t, h.call(t, false, "/v1/frontendservice/tickets", "application/json", []byte(`{"ticket":{}}`)).
			status == http.StatusOK, "small messages aren't counted")
		end()
		require.NoError(t, calls.Wait())
		require.True(t, create(), "%s: the memory was returned", name)
	}
}

func mustMarshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	require.NoError(t, err)
	return data
}

// TestSmallCompressedCallsBesideEachOther: they take turns to be decompressed, and none is refused.
func TestSmallCompressedCallsBesideEachOther(t *testing.T) {
	t.Parallel()
	h := start(t)
	message := compressed(t, []byte(`{"ticket":{}}`))
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			got := h.call(t, true, "/v1/frontendservice/tickets", "application/json", message, "Content-Encoding", "gzip")
			assert.Equal(t, http.StatusOK, got.status, got.body)
		})
	}
	calls.Wait()
}
