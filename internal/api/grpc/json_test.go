package grpc_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// send calls a JSON path, as curl does. The headers are alternating names and values.
func (h *harness) send(method, path, body string, headers ...string) *http.Response {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	require.NoError(h.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Tidemark-Queue", "q")
	for pair := range slices.Chunk(headers, 2) {
		request.Header.Set(pair[0], pair[1])
	}
	response, err := servertest.Client(h.t, false).Do(request)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { require.NoError(h.t, response.Body.Close()) })
	return response
}

// text calls a JSON path, and returns the text of the answer.
func (h *harness) text(method, path, body string, headers ...string) string {
	h.t.Helper()
	data, err := io.ReadAll(h.send(method, path, body, headers...).Body)
	require.NoError(h.t, err)
	return string(data)
}

// answers calls a JSON path, and returns the answer.
func (h *harness) answers(status int, method, path, body string) (answer map[string]any) {
	h.t.Helper()
	response := h.send(method, path, body)
	require.NotEmpty(h.t, response.Header.Get("X-Request-Id"))
	data, err := io.ReadAll(response.Body)
	require.NoError(h.t, err)
	require.Equal(h.t, status, response.StatusCode, "%s", data)
	require.Equal(h.t, "application/json", response.Header.Get("Content-Type"))
	require.NoError(h.t, json.Unmarshal(data, &answer), "%s", data)
	return answer
}

// TestJSONPaths checks Open Match's JSON paths, with its bodies and errors.
func TestJSONPaths(t *testing.T) {
	t.Parallel()
	h := start(t)
	const tickets = "/v1/frontendservice/tickets"
	created := h.answers(200, "POST", tickets, `{"ticket":{"searchFields":{"tags":["eu"]}}}`)
	id := created["id"].(string)
	require.Equal(t, "q", h.matches.get(id).Queue)
	require.Equal(t, map[string]any{
		"id": id, "create_time": created["create_time"], "search_fields": map[string]any{"tags": []any{"eu"}},
	}, created, "the names of the .proto files, and no empty fields")
	require.Equal(t, created, h.answers(200, "GET", tickets+"/"+id, ""))

	h.matches.assign(id, "host:1")
	watch := h.send("GET", tickets+"/"+id+"/assignments", "")
	lines := bufio.NewScanner(watch.Body)
	require.True(t, lines.Scan())
	require.Equal(t, http.StatusOK, watch.StatusCode)
	var line struct {
		Result struct {
			Assignment struct{ Connection string }
		}
		Error struct {
			Code    int    `json:"grpc_code"`
			HTTP    int    `json:"http_code"`
			Status  string `json:"http_status"`
			Message string
		}
	}
	require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
	require.Equal(t, "host:1", line.Result.Assignment.Connection)

	other := h.answers(200, "POST", tickets, `{"ticket":{"search_fields":{"tags":["us"]}}}`)["id"].(string)
	require.Equal(t, []string{"us"}, h.matches.get(other).SearchFields.Tags)
	query := h.answers(200, "POST", "/v1/queryservice/tickets:query", `{"pool":{}}`)
	found := query["result"].(map[string]any)["tickets"].([]any)
	require.Len(t, found, 1)
	require.Equal(t, map[string]any{"tags": []any{"us"}}, found[0].(map[string]any)["search_fields"])
	query = h.answers(200, "POST", "/v1/queryservice/ticketids:query", `{"pool":{"name":"all"}}`)
	require.Equal(t, map[string]any{"ids": []any{other}}, query["result"])
	require.Empty(t, h.answers(200, "DELETE", tickets+"/"+other, ""))

	failure := func(code float64, message string) map[string]any {
		return map[string]any{"error": message, "code": code, "message": message}
	}
	inStream := func(code float64, status int, message string) map[string]any {
		return map[string]any{"error": map[string]any{
			"grpc_code": code, "http_code": float64(status), "message": message, "http_status": http.StatusText(status),
		}}
	}
	notFound := failure(5, "Ticket id: "+other+" not found")
	require.Equal(t, notFound, h.answers(404, "GET", tickets+"/"+other, ""))
	require.Equal(t, inStream(5, 404, "Ticket id: "+other+" not found"),
		h.answers(404, "GET", tickets+"/"+other+"/assignments", ""))
	require.Equal(t, failure(3, ".ticket is required"), h.answers(400, "POST", tickets, `{}`))
	require.Equal(t, inStream(3, 400, ".pool is required"), h.answers(400, "POST", "/v1/queryservice/tickets:query", ``))
	require.Equal(t, failure(3, ".ticket is required"), h.answers(400, "POST", tickets, ``))
	require.Equal(t, notFound, h.answers(404, "GET", tickets+"/"+other+"?ticket_id="+id+"&other=1", ""))
	require.Equal(t, failure(3, "the path isn't UTF-8"), h.answers(400, "GET", tickets+"/%FF", ""))
	require.Equal(t, failure(3, "the path isn't UTF-8"), h.answers(400, "DELETE", tickets+"/%FF", ""))
	require.Equal(t, inStream(3, 400, "the path isn't UTF-8"), h.answers(400, "GET", tickets+"/%FF/assignments", ""))
	for path, codeOf := range map[string]func(map[string]any) any{
		tickets: func(answer map[string]any) any { return answer["code"] },
		"/v1/queryservice/tickets:query": func(answer map[string]any) any {
			return answer["error"].(map[string]any)["grpc_code"]
		},
	} {
		for _, body := range []string{`{`, `[]`, `{"ticket":1,"pool":1}`, "\xff"} {
			require.Equal(t, float64(3), codeOf(h.answers(400, "POST", path, body)), "%q", body)
		}
		large := `{"ticket":{"id":"` + strings.Repeat("x", maxBodyBytes) + `"}}`
		require.Equal(t, float64(8), codeOf(h.answers(413, "POST", path, large)), path)
	}

	h.drain()
	require.True(t, lines.Scan())
	require.NoError(t, json.Unmarshal(lines.Bytes(), &line))
	require.Equal(t, 14, line.Error.Code)
	require.Equal(t, http.StatusServiceUnavailable, line.Error.HTTP)
	require.Equal(t, "Service Unavailable", line.Error.Status)
	require.Equal(t, "the server is shutting down", line.Error.Message)
	require.False(t, lines.Scan())
}

// TestJSONThatIsNotCompressed checks that uncompressed JSON with headers for compressed JSON is the client's fault.
func TestJSONThatIsNotCompressed(t *testing.T) {
	t.Parallel()
	h := start(t)
	var whole bytes.Buffer
	w := gzip.NewWriter(&whole)
	_, err := w.Write([]byte(`{"ticket":{}}`))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for text, status := range map[string]int{whole.String(): 200, whole.String()[:whole.Len()-6]: 400, `{"ticket":{}}`: 400} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/frontendservice/tickets", strings.NewReader(text))
		require.NoError(t, err)
		request.Header.Set("Content-Encoding", "gzip")
		request.Header.Set("Tidemark-Queue", "q")
		response, err := servertest.Client(t, false).Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode, "%q", text)
	}
}

// TestJSONOfWhatItCannotRepresent: a ticket with such an extension can be read, and so can others in the same answer.
func TestJSONOfWhatItCannotRepresent(t *testing.T) {
	t.Parallel()
	h := start(t)
	odd := map[string]*anypb.Any{
		"unknown":   {TypeUrl: "type.example.com/game.Player", Value: []byte("abc")},
		"malformed": {TypeUrl: "type.googleapis.com/google.protobuf.Int64Value", Value: []byte{0xff}},
		"untyped":   {Value: []byte("x")},
		"nan":       {TypeUrl: "type.googleapis.com/google.protobuf.Value", Value: []byte{0x11, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f}},
		"fine":      {TypeUrl: "type.googleapis.com/google.protobuf.Int64Value", Value: []byte{8, 5}},
	}
	want := map[string]any{
		"unknown":   map[string]any{"@type": "type.example.com/game.Player", "value": "YWJj"},
		"malformed": map[string]any{"@type": "type.googleapis.com/google.protobuf.Int64Value", "value": "/w=="},
		"untyped":   map[string]any{"@type": "", "value": "eA=="},
		"nan":       map[string]any{"@type": "type.googleapis.com/google.protobuf.Value", "value": "EQAAAAAAAPh/"},
		"fine":      map[string]any{"@type": "type.googleapis.com/google.protobuf.Int64Value", "value": "5"},
	}
	created := h.create(h.frontend(servertest.GRPC), &openmatch.Ticket{Extensions: odd, PersistentField: odd},
		"tidemark-queue", "q")
	read := h.answers(200, "GET", "/v1/frontendservice/tickets/"+created.GetId(), "")
	require.Equal(t, want, read["extensions"])
	require.Equal(t, want, read["persistent_field"])
	h.answers(200, "POST", "/v1/frontendservice/tickets", `{"ticket":{}}`)
	page := h.answers(200, "POST", "/v1/queryservice/tickets:query", `{"pool":{}}`)["result"].(map[string]any)["tickets"].([]any)
	require.Len(t, page, 2)
	require.Contains(t, page, read)
}

// TestJSONOfAnysInAnys: the cost of reading and writing such messages as JSON grows with the square of their size, so
// JSON can't have them, and shows their bytes.
func TestJSONOfAnysInAnys(t *testing.T) {
	t.Parallel()
	h := start(t)
	number, err := anypb.New(wrapperspb.Int64(5))
	require.NoError(t, err)
	inner, err := anypb.New(number)
	require.NoError(t, err)
	ticket, err := anypb.New(&openmatch.Ticket{Extensions: map[string]*anypb.Any{"inner": number}})
	require.NoError(t, err)
	all := map[string]*anypb.Any{"inner": inner, "ticket": ticket, "number": number}
	created := h.create(h.frontend(servertest.GRPC), &openmatch.Ticket{Extensions: all}, "tidemark-queue", "q")
	opaque := func(a *anypb.Any) map[string]any {
		return map[string]any{"@type": a.GetTypeUrl(), "value": base64.StdEncoding.EncodeToString(a.GetValue())}
	}
	want := map[string]any{
		"inner": opaque(inner), "ticket": opaque(ticket), "number": map[string]any{"@type": number.GetTypeUrl(), "value": "5"},
	}
	read := h.answers(200, "GET", "/v1/frontendservice/tickets/"+created.GetId(), "")
	require.Equal(t, want, read["extensions"])
	page := h.answers(200, "POST", "/v1/queryservice/tickets:query", `{"pool":{}}`)["result"].(map[string]any)["tickets"]
	require.Equal(t, []any{read}, page)

	const text = `{"ticket":{"extensions":{"a":{"@type":"type.googleapis.com/%s",%s}}}}`
	for _, body := range []string{
		fmt.Sprintf(text, "google.protobuf.Any", `"value":{"@type":"type.googleapis.com/google.protobuf.Empty","value":{}}`),
		fmt.Sprintf(text, "openmatch.Ticket", `"id":"x"`),
	} {
		refused := h.answers(400, "POST", "/v1/frontendservice/tickets", body)
		require.Contains(t, refused["message"], "unable to resolve", body)
	}
}
