package server_test

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

	"github.com/tidemark-dev/tidemark/server"
)

// envelope is a message of gRPC with a prefix that may not fit it.
func envelope(flags byte, length int, message []byte) []byte {
	out := []byte{flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(out[1:], uint32(length))
	return append(out, message...)
}

// rpcOutcome is how a call of gRPC ended.
type rpcOutcome struct {
	http int    // status
	code string // of gRPC; "": there was none
	log  record
}

// post sends a body as a call of gRPC, whatever is in it.
func (r *rpcHarness) post(t *testing.T, procedure, contentType string, body []byte) rpcOutcome {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+procedure, bytes.NewReader(body))
	require.NoError(t, err)
	id := fmt.Sprintf("%s-%s-%x", procedure[1:], contentType, body[:min(len(body), 20)])
	request.Header.Set("X-Request-Id", id)
	request.Header.Set("Content-Type", contentType)
	response, err := rpcClient(t, true).Do(request)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	out := rpcOutcome{http: response.StatusCode, code: response.Trailer.Get("Grpc-Status"), log: r.logs.request(t, id)}
	if out.code == "" {
		out.code = response.Header.Get("Grpc-Status")
	}
	return out
}

// TestMalformedRPC sends bodies that aren't calls. They are the client's fault, on the wire and in the log.
func TestMalformedRPC(t *testing.T) {
	t.Parallel()
	const limit = 2000
	r := startRPC(t, func(o *server.Options) { o.MaxBodyBytes = limit })
	large := make([]byte, limit+1)
	invalid, exhausted := fmt.Sprint(int(connect.CodeInvalidArgument)), fmt.Sprint(int(connect.CodeResourceExhausted))
	for name, bad := range map[string]struct {
		body   []byte
		code   string
		status string
	}{
		"half a prefix":   {[]byte("ab"), invalid, "400"},
		"half a message":  {envelope(0, 10, []byte("abc")), invalid, "400"},
		"no message":      {envelope(0, 3, []byte{0xff, 0xff, 0xff}), invalid, "400"},
		"compressed":      {envelope(1, 3, []byte("abc")), invalid, "400"},
		"unknown flags":   {envelope(64, 3, []byte("abc")), invalid, "400"},
		"text":            {[]byte("GET / HTTP/1.1"), invalid, "400"},
		"a large message": {envelope(0, len(large), large), exhausted, "413"},
		"a large length":  {envelope(0, 1<<31, []byte("abc")), exhausted, "413"},
	} {
		for _, procedure := range []string{
			"/openmatch.FrontendService/CreateTicket", "/openmatch.FrontendService/WatchAssignments", "/openmatch.QueryService/QueryTickets",
			"/grpc.health.v1.Health/Check", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		} {
			for _, contentType := range []string{"application/grpc", "application/grpc+proto"} {
				got := r.post(t, procedure, contentType, bad.body)
				about := []any{"%s: %s, %s", name, procedure, contentType}
				require.Equal(t, 200, got.http, about...)
				require.Equal(t, bad.code, got.code, about...)
				require.Equal(t, bad.status, got.log.attrs["status"], about...)
				require.Less(t, got.log.Level, slog.LevelWarn, about...)
				require.NotEmpty(t, got.log.attrs["error"], about...)
			}
		}
	}
}

// TestUnknownRPC calls methods and services that there aren't.
func TestUnknownRPC(t *testing.T) {
	t.Parallel()
	r := startRPC(t)
	for _, procedure := range []string{"/openmatch.FrontendService/Nothing", "/openmatch.BackendService/FetchMatches", "/nothing"} {
		for _, contentType := range []string{"application/grpc", "application/grpc+proto"} {
			got := r.post(t, procedure, contentType, envelope(0, 0, nil))
			require.Equal(t, 200, got.http)
			require.Equal(t, fmt.Sprint(int(connect.CodeUnimplemented)), got.code)
			require.Equal(t, "404", got.log.attrs["status"])
			require.Less(t, got.log.Level, slog.LevelWarn)
		}
	}
	for _, p := range protocols[:5] { // the last is Connect with another encoding
		client := connect.NewClient[struct{}, struct{}](rpcClient(t, p.http2), r.url+"/openmatch.FrontendService/Nothing",
			append([]connect.ClientOption{connect.WithCodec(emptyCodec{})}, p.options...)...)
		_, err := client.CallUnary(t.Context(), connect.NewRequest(&struct{}{}))
		require.Equal(t, connect.CodeUnimplemented, connect.CodeOf(err), "%s: %v", p.name, err)
	}
}

// emptyCodec encodes nothing.
type emptyCodec struct{}

func (emptyCodec) Name() string                { return "proto" }
func (emptyCodec) Marshal(any) ([]byte, error) { return []byte{}, nil }
func (emptyCodec) Unmarshal([]byte, any) error { return nil }
