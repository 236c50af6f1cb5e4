package grpc_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestTimeouts: on the HTTP port a client's timeout ends its call, and an invalid timeout header is the client's fault.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	h := start(t)
	const grpcTimeout, connectTimeout, ignored = "Grpc-Timeout", "Connect-Timeout-Ms", "X-Server-Timeout"
	empty := envelope(0, 2, []byte{10, 0})
	valid := map[string][]string{grpcTimeout: {"5S", "9H", "99999999H", "99999999m"}, connectTimeout: {"5000", "9999999999"}}
	invalid := []string{"10 S", "S", "x", "-1S", "+1S", "-1", "NaN", "Inf", "1e300", "1.5S", "999999999S", "99999999999999999999", "1S,2S"}
	for _, way := range []struct {
		name, path, kind, header string
		body                     []byte
		done, refused            string
	}{
		{"JSON", "/v1/frontendservice/tickets", "application/json", grpcTimeout, []byte(`{"ticket":{}}`), `200  {"id"`, `400  {"error":"`},
		{"JSON stream", "/v1/queryservice/tickets:query", "application/json", grpcTimeout, []byte(`{"pool":{}}`), `200  {"result"`, `400  {"error":{"grpc_code":3,`},
		{"Connect", "/openmatch.FrontendService/CreateTicket", "application/json", connectTimeout, []byte(`{"ticket":{}}`), `200  {"id"`, `400  {"code":"invalid_argument"`},
		{"gRPC-Web", "/openmatch.FrontendService/CreateTicket", "application/grpc-web+proto", grpcTimeout, empty, "200  \x00", "200 3 "},
		{"gRPC", "/openmatch.FrontendService/CreateTicket", "application/grpc", grpcTimeout, empty, "200 0 \x00", "200 3 "},
	} {
		answer := func(header, timeout string) string {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+way.path, bytes.NewReader(way.body))
			require.NoError(t, err)
			request.Header.Set("Content-Type", way.kind)
			request.Header.Set("Tidemark-Queue", "q")
			request.Header.Set(header, timeout)
			response, err := servertest.Client(t, way.name == "gRPC").Do(request)
			require.NoError(t, err)
			data, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return fmt.Sprintf("%d %s%s %s", response.StatusCode, response.Header.Get("Grpc-Status"), response.Trailer.Get("Grpc-Status"), data)
		}
		requirePrefix := func(want, header, timeout string) {
			got := answer(header, timeout)
			require.Equal(t, want, got[:min(len(want), len(got))], "%s, %s: %s, got %q", way.name, header, timeout, got)
		}
		for _, timeout := range valid[way.header] {
			requirePrefix(way.done, way.header, timeout)
		}
		for _, timeout := range invalid {
			requirePrefix(way.refused, way.header, timeout)
			for _, other := range []string{grpcTimeout, connectTimeout, ignored} {
				if other != way.header {
					requirePrefix(way.done, other, timeout)
				}
			}
		}
	}

	id := h.newID(h.frontend(servertest.Native))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/v1/frontendservice/tickets/"+id+"/assignments", nil)
	require.NoError(t, err)
	request.Header.Set(grpcTimeout, "10m")
	response, err := servertest.Client(t, false).Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusGatewayTimeout, response.StatusCode)
}

// TestTimeoutWhileAMessageIsRead: calls whose time ends while their messages are found to be malformed are answered
// once, with either error. The race detector finds an answer that two goroutines write.
func TestTimeoutWhileAMessageIsRead(t *testing.T) {
	t.Parallel()
	h := start(t)
	malformed := `{"ticket":{"searchFields":{"tags":["` + strings.Repeat(`a","`, maxBodyBytes/8) + `"]}}`
	var calls errgroup.Group
	calls.SetLimit(16)
	for i := range 64 {
		calls.Go(func() error {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/frontendservice/tickets",
				strings.NewReader(malformed))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Grpc-Timeout", fmt.Sprintf("%du", 100*i))
			response, err := servertest.Client(t, true).Do(request)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(response.Body)
			if err != nil {
				return err
			}
			if response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusGatewayTimeout {
				return fmt.Errorf("status %d, %s", response.StatusCode, data)
			}
			return response.Body.Close()
		})
	}
	require.NoError(t, calls.Wait())
}
