package grpc_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tidemark-dev/tidemark/server/internal/servertest"
)

// envelope returns a message of gRPC with a prefix that may not fit it.
func envelope(flags byte, length int, message []byte) []byte {
	out := []byte{flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(out[1:], uint32(length))
	return append(out, message...)
}

// post sends a body as a call of gRPC, whatever is in it. The outcome is that of the client's fault, on the wire and in the
// log.
func (h *harness) post(t *testing.T, procedure string, body []byte, code connect.Code, status string) {
	t.Helper()
	for _, contentType := range []string{"application/grpc", "application/grpc+proto"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+procedure, bytes.NewReader(body))
		require.NoError(t, err)
		id := fmt.Sprintf("%s-%s-%x", procedure[1:], contentType, body[:min(len(body), 20)])
		request.Header.Set("X-Request-Id", id)
		request.Header.Set("Content-Type", contentType)
		response, err := servertest.Client(t, true).Do(request)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, id)
		got := response.Trailer.Get("Grpc-Status") + response.Header.Get("Grpc-Status")
		require.Equal(t, fmt.Sprint(int(code)), got, id)
		log := h.logs.Request(t, id)
		require.Equal(t, status, log.Attributes["status"], id)
		require.Less(t, log.Level, slog.LevelWarn, id)
		require.NotEmpty(t, log.Attributes["error"], id)
	}
}

func TestMalformedCalls(t *testing.T) {
	t.Parallel()
	h := start(t)
	large := make([]byte, maxBodyBytes+1)
	for _, bad := range []struct {
		body   []byte
		code   connect.Code
		status string
	}{
		{[]byte("ab"), connect.CodeInvalidArgument, "400"},
		{envelope(0, 10, []byte("abc")), connect.CodeInvalidArgument, "400"},
		{envelope(0, 3, []byte{0xff, 0xff, 0xff}), connect.CodeInvalidArgument, "400"},
		{envelope(1, 3, []byte("abc")), connect.CodeInvalidArgument, "400"},
		{envelope(64, 3, []byte("abc")), connect.CodeInvalidArgument, "400"},
		{[]byte("GET / HTTP/1.1"), connect.CodeInvalidArgument, "400"},
		{envelope(0, len(large), large), connect.CodeResourceExhausted, "413"},
		{envelope(0, 1<<31, []byte("abc")), connect.CodeResourceExhausted, "413"},
	} {
		for _, procedure := range []string{
			"/openmatch.FrontendService/CreateTicket", "/openmatch.FrontendService/WatchAssignments", "/openmatch.QueryService/QueryTickets",
			"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		} {
			h.post(t, procedure, bad.body, bad.code, bad.status)
		}
	}
}

func TestUnknownProcedures(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, procedure := range []string{"/openmatch.FrontendService/Nothing", "/openmatch.BackendService/FetchMatches", "/nothing"} {
		h.post(t, procedure, envelope(0, 0, nil), connect.CodeUnimplemented, "404")
		for _, p := range servertest.Protocols {
			client := connect.NewClient[emptypb.Empty, emptypb.Empty](servertest.Client(t, p.HTTP2), h.url+procedure, p.Options...)
			_, err := client.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
			require.Equal(t, connect.CodeUnimplemented, connect.CodeOf(err), "%s: %v", p.Name, err)
		}
	}
}
