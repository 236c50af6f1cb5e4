package grpc_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	grpcgo "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// envelope returns a message of gRPC with a prefix that may not fit it.
func envelope(flags byte, length int, message []byte) []byte {
	out := []byte{flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(out[1:], uint32(length))
	return append(out, message...)
}

// post sends any body as a call of gRPC. The outcome is an error of the client, on the wire and in the log.
func (h *harness) post(t *testing.T, url, procedure string, body []byte, code codes.Code) {
	t.Helper()
	outcome := map[codes.Code]string{codes.ResourceExhausted: "413", codes.Unimplemented: "404"}[code]
	if outcome == "" {
		outcome = "400"
	}
	for _, contentType := range []string{"application/grpc", "application/grpc+proto"} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+procedure, bytes.NewReader(body))
		require.NoError(t, err)
		id := fmt.Sprintf("%s-%s-%d-%x", url[7:], procedure[1:], len(contentType), body[:min(len(body), 10)])
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
		require.Equal(t, outcome, log.Attributes["status"], id)
		require.Less(t, log.Level, slog.LevelWarn, id)
		require.NotEmpty(t, log.Attributes["error"], id)
	}
}

// TestMalformedCalls: where grpc-go reads the prefixes of messages, which is on its own listener and in streams of
// requests, or their flags, it reports malformed ones as internal errors. They are counted as the client's.
func TestMalformedCalls(t *testing.T) {
	t.Parallel()
	h := start(t)
	large := make([]byte, maxBodyBytes+1)
	const reflection = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
	for _, bad := range []struct {
		body         []byte
		code, native codes.Code
	}{
		{[]byte("ab"), codes.InvalidArgument, codes.Internal},
		{envelope(0, 10, []byte("abc")), codes.InvalidArgument, codes.Internal},
		{envelope(0, 3, []byte{0xff, 0xff, 0xff}), codes.InvalidArgument, codes.InvalidArgument},
		{envelope(1, 3, []byte("abc")), codes.Internal, codes.Internal},
		{envelope(64, 3, []byte("abc")), codes.Internal, codes.Internal},
		{envelope(0, len(large), large), codes.ResourceExhausted, codes.ResourceExhausted},
		{envelope(0, 1<<31, []byte("abc")), codes.InvalidArgument, codes.ResourceExhausted},
	} {
		for _, procedure := range []string{
			"/openmatch.FrontendService/CreateTicket", "/openmatch.FrontendService/WatchAssignments", "/openmatch.QueryService/QueryTickets",
			"/grpc.health.v1.Health/Check", reflection,
		} {
			if procedure != reflection {
				h.post(t, h.url, procedure, bad.body, bad.code)
			}
			h.post(t, "http://"+h.address, procedure, bad.body, bad.native)
		}
	}
}

// TestEmptyJSON sends no bytes as JSON.
func TestEmptyJSON(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, procedure := range []string{
		openmatch.FrontendService_CreateTicket_FullMethodName, openmatch.FrontendService_GetTicket_FullMethodName,
	} {
		for _, contentType := range []string{"application/json", "application/json; charset=utf-8"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+procedure, http.NoBody)
			require.NoError(t, err)
			request.Header.Set("Content-Type", contentType)
			response, err := servertest.Client(t, false).Do(request)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusBadRequest, response.StatusCode, "%s", body)
			require.JSONEq(t, `{"code":"invalid_argument","message":"the message is empty, which isn't JSON"}`,
				string(body))
		}
		h.post(t, h.url, procedure, nil, codes.InvalidArgument)
	}
}

// TestUnknownEncodings: a call with an encoding that isn't known fails as gRPC specifies, on the HTTP port too.
func TestUnknownEncodings(t *testing.T) {
	t.Parallel()
	h := start(t)
	const textRefused = `"application/grpc-web-text" isn't supported, only application/grpc and application/grpc-web`
	for i, c := range []struct{ contentType, encoding, text string }{
		{"application/grpc", "br", `grpc-encoding "br" isn't supported, only gzip and identity`},
		{"application/grpc+proto", "br", `grpc-encoding "br" isn't supported, only gzip and identity`},
		{"application/grpc-web", "br", `grpc-encoding "br" isn't supported, only gzip and identity`},
		{"application/grpc+thrift", "", `messages in "thrift" aren't supported, only in proto and json`},
		{"application/grpc-web+thrift", "gzip", `messages in "thrift" aren't supported, only in proto and json`},
		{"application/grpc+thrift; v=1", "", `messages in "thrift" aren't supported, only in proto and json`},
		{"application/grpc; charset=utf-8", "br", `grpc-encoding "br" isn't supported, only gzip and identity`},
		{"application/grpc-web-text", "", textRefused},
		{"application/grpc-web-text+proto", "", textRefused},
	} {
		for _, procedure := range []string{
			openmatch.FrontendService_GetTicket_FullMethodName, openmatch.QueryService_QueryTickets_FullMethodName,
			"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+procedure,
				strings.NewReader("AAAAAAA=")) // also what isn't a message, such as base64
			require.NoError(t, err)
			request.Header.Set("Content-Type", c.contentType)
			request.Header.Set("Grpc-Encoding", c.encoding)
			id := fmt.Sprintf("%s-%d", procedure[1:], i)
			request.Header.Set("X-Request-Id", id)
			response, err := servertest.Client(t, true).Do(request)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode, "%s %s", id, body)
			require.Equal(t, c.encoding == "br", response.Header.Get("Grpc-Accept-Encoding") == "gzip")
			require.Equal(t, "12", statusField(response, "Grpc-Status"), id)
			require.Equal(t, c.text, statusField(response, "Grpc-Message"), id)
			require.Equal(t, "415", h.logs.Request(t, id).Attributes["status"])
		}
	}
}

// TestParametersOfContentTypes: parameters of a content type change nothing.
func TestParametersOfContentTypes(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, contentType := range []string{
		"application/grpc; charset=utf-8", "application/grpc+proto;charset=utf-8", "application/grpc-web;charset=utf-8",
		"application/grpc-web+proto; charset=utf-8",
	} {
		for procedure, code := range map[string]string{
			openmatch.FrontendService_GetTicket_FullMethodName: "5", "/openmatch.FrontendService/Nothing": "12",
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+procedure,
				bytes.NewReader(envelope(0, 0, nil)))
			require.NoError(t, err)
			request.Header.Set("Content-Type", contentType)
			response, err := servertest.Client(t, true).Do(request)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, http.StatusOK, response.StatusCode, "%s %s", contentType, body)
			require.Equal(t, code, response.Header.Get("Grpc-Status")+response.Trailer.Get("Grpc-Status"), contentType)
		}
	}
}

// jsonMessages is a codec of JSON for clients of grpc-go.
type jsonMessages struct{}

func (jsonMessages) Name() string                  { return "json" }
func (jsonMessages) Marshal(m any) ([]byte, error) { return protojson.Marshal(m.(proto.Message)) }
func (jsonMessages) Unmarshal(text []byte, m any) error {
	return protojson.Unmarshal(text, m.(proto.Message))
}

// TestJSONOverGRPC: gRPC on the HTTP port also takes messages of JSON. The listener of gRPC says that it doesn't.
func TestJSONOverGRPC(t *testing.T) {
	t.Parallel()
	h := start(t)
	asJSON := grpcgo.ForceCodec(jsonMessages{})
	id := h.newID(h.frontend(servertest.GRPCGo))
	got, err := h.frontend(servertest.GRPCGo).GetTicket(t.Context(), &openmatch.GetTicketRequest{TicketId: id}, asJSON)
	require.NoError(t, err)
	require.Equal(t, id, got.GetId())
	const text = `messages in "json" aren't supported here, only in proto; the HTTP port also has json`
	f := h.frontend(servertest.Native)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "json")
	_, err = f.GetTicket(ctx, &openmatch.GetTicketRequest{TicketId: id}, asJSON)
	isError(t, err, codes.Unimplemented, text)
	require.Equal(t, "415", h.logs.Request(t, "json").Attributes["status"])
	stream, err := f.WatchAssignments(t.Context(), &openmatch.WatchAssignmentsRequest{TicketId: id}, asJSON)
	require.NoError(t, err)
	_, err = stream.Recv()
	isError(t, err, codes.Unimplemented, text)
}

// TestTwoMessages sends two messages to a method that takes one.
func TestTwoMessages(t *testing.T) {
	t.Parallel()
	h := start(t)
	two := append(envelope(0, 0, nil), envelope(0, 0, nil)...)
	h.post(t, h.url, openmatch.FrontendService_GetTicket_FullMethodName, two, codes.InvalidArgument)
	h.post(t, "http://"+h.address, openmatch.FrontendService_GetTicket_FullMethodName, two, codes.Internal)
}

func TestUnknownProcedures(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, procedure := range []string{"/openmatch.FrontendService/Nothing", "/openmatch.Synchronizer/Synchronize", "/nothing"} {
		h.post(t, h.url, procedure, envelope(0, 0, nil), codes.Unimplemented)
		if procedure != "/nothing" { // grpc-go's own answer, which is not counted
			h.post(t, "http://"+h.address, procedure, envelope(0, 0, nil), codes.Unimplemented)
		}
		for _, p := range servertest.Protocols {
			err := h.dial(p).Invoke(t.Context(), procedure, &emptypb.Empty{}, &emptypb.Empty{})
			require.Equal(t, codes.Unimplemented, status.Code(err), "%s: %v", p.Name, err)
		}
	}
}
