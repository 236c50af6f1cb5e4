package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/openmatch"
)

// writeKeys writes a file with an API key that has all rights, and returns its path and the key.
func writeKeys(t *testing.T) (path, key string) {
	t.Helper()
	made, key, err := keys.Generate(keys.NewKey{
		Grants: json.RawMessage(`[{"actions":["publish","subscribe","describe","ticket","queue","admin"]}]`),
	}, time.Now())
	require.NoError(t, err)
	text, err := json.Marshal([]keys.Key{made})
	require.NoError(t, err)
	path = filepath.Join(t.TempDir(), "keys.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path, key
}

// visitor calls all listeners over HTTP/2.
type visitor struct {
	t    *testing.T
	http http.Client
	key  string // empty: it has no credential
}

func newVisitor(t *testing.T, key string) *visitor {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &visitor{t: t, http: http.Client{Transport: transport}, key: key}
}

// call returns the status of an answer, or its gRPC status if it has one, and its body.
func (v *visitor) call(method, url, body string) (status, answer string) {
	v.t.Helper()
	request, err := http.NewRequestWithContext(v.t.Context(), method, url, strings.NewReader(body))
	require.NoError(v.t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/grpc")
	}
	if v.key != "" {
		request.Header.Set("Authorization", "Bearer "+v.key)
	}
	answered, err := v.http.Do(request)
	require.NoError(v.t, err)
	text, err := io.ReadAll(answered.Body)
	require.NoError(v.t, err)
	require.NoError(v.t, answered.Body.Close())
	for _, from := range []http.Header{answered.Header, answered.Trailer} {
		if code := from.Get("Grpc-Status"); code != "" {
			return "grpc " + code, string(text)
		}
	}
	return answered.Status[:3], string(text)
}

// procedure calls a gRPC method with an empty message.
func (v *visitor) procedure(listener, path string) (status, answer string) {
	v.t.Helper()
	return v.call(http.MethodPost, listener+path, "\x00\x00\x00\x00\x00")
}

// documentedCalls returns the methods and paths of docs/openapi.yaml, which are all of HTTP but Open Match's and the
// profiles.
func documentedCalls(t *testing.T) (calls [][2]string) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../../docs/openapi.yaml")
	require.NoError(t, err)
	parameter := regexp.MustCompile(`\{\w+\}`)
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			calls = append(calls, [2]string{method, parameter.ReplaceAllString(path, "x")})
		}
	}
	return append(calls, [][2]string{
		{"GET", "/debug/pprof/"}, {"GET", "/debug/pprof/heap"}, {"GET", "/debug/pprof/profile"},
		{"GET", "/debug/pprof/trace"},
		{"POST", "/v1/frontendservice/tickets"}, {"GET", "/v1/frontendservice/tickets/x"},
		{"DELETE", "/v1/frontendservice/tickets/x"},
		{"GET", "/v1/frontendservice/tickets/x/assignments"}, {"POST", "/v1/queryservice/tickets:query"},
	}...)
}

// procedures returns the paths of all gRPC methods except those of the health service.
func procedures() []string {
	const reflection = ".ServerReflection/ServerReflectionInfo"
	paths := []string{"/grpc.reflection.v1" + reflection, "/grpc.reflection.v1alpha" + reflection}
	frontend, query := openmatch.FrontendService_ServiceDesc, openmatch.QueryService_ServiceDesc
	for _, m := range frontend.Methods {
		paths = append(paths, "/"+frontend.ServiceName+"/"+m.MethodName)
	}
	for _, m := range frontend.Streams {
		paths = append(paths, "/"+frontend.ServiceName+"/"+m.StreamName)
	}
	for _, m := range query.Streams {
		paths = append(paths, "/"+query.ServiceName+"/"+m.StreamName)
	}
	return paths
}

// forOperators matches paths of channels that are called at the admin listener, for at least one method.
var forOperators = regexp.MustCompile(`^/v1/channels(/[^/]+(/messages|/purge|/policy|/connected|/subscribers/[^/]+/seek)?)?$`)

// TestClosedService starts a service that other machines can reach, and calls everything on each of its listeners:
// without a credential all calls are refused, and with one the same calls are answered.
func TestClosedService(t *testing.T) {
	t.Parallel()
	file, key := writeKeys(t)
	s := startServer(t, "--listen", "0.0.0.0:0", "--grpc-listen", "0.0.0.0:0", "--admin-listen", "0.0.0.0:0",
		"--api-keys", file)
	grpc := regexp.MustCompile(` grpc=\S+:(\d+) `).FindStringSubmatch(s.Log())
	require.NotNil(t, grpc)
	forGRPC := "http://127.0.0.1:" + grpc[1]
	require.Contains(t, s.Log(), `msg="tidemark is starting" version=devel access=credentials`)
	require.Contains(t, s.Log(), `level=WARN msg="credentials and messages cross the network in plain text`)
	stranger, friend := newVisitor(t, ""), newVisitor(t, key)
	for _, listener := range []string{s.url, s.admin} {
		for _, c := range documentedCalls(t) {
			method, path := c[0], c[1]
			status, answer := stranger.call(method, listener+path, "")
			switch {
			case regexp.MustCompile(`^/(livez|readyz|healthz|probe/.*|v1/(openapi|asyncapi)\.yaml)?$`).MatchString(path):
				require.Equal(t, "200", status, path)
			case path == "/v1/socket": // a WebSocket may send its credential in its first frame
				require.Equal(t, "400", status, "it isn't a WebSocket: %s", answer)
			case listener == s.url && (status == "404" || status == "405"):
				status, _ = friend.call(method, listener+path, "")
				require.Contains(t, []string{"404", "405"}, status, "it isn't served here to anybody: %s %s", method,
					path)
				if !forOperators.MatchString(path) {
					require.NotRegexp(t, `^/(channel|v1/(channels|tickets|matches|info))`, path)
				}
			default:
				require.Equal(t, "401", status, "%s %s: %s", method, path, answer)
				require.Regexp(t, `credentials-missing|dsps.auth.rejected|"(grpc_)?code":16`, answer)
			}
		}
	}
	for _, listener := range []string{s.url, s.admin, forGRPC} {
		for _, path := range procedures() {
			status, answer := stranger.procedure(listener, path)
			require.Equal(t, "grpc 16", status, "%s%s", listener, path)
			require.Empty(t, answer)
		}
		status, _ := stranger.procedure(listener, "/grpc.health.v1.Health/Check")
		require.Equal(t, "grpc 0", status)
		status, _ = friend.procedure(listener, openmatch.FrontendService_GetTicket_FullMethodName)
		require.Equal(t, "grpc 5", status, "the key is accepted, and there is no such ticket")
	}
	for url, want := range map[string]string{s.url + "/v1/info": `"access":"credentials"`,
		s.admin + "/metrics": "\ntidemark_http_connections "} {
		status, answer := friend.call(http.MethodGet, url, "")
		require.Equal(t, "200", status)
		require.Contains(t, answer, want)
	}
	const idEnds = len("tmk_0123456789abcdef_")
	forged := newVisitor(t, key[:idEnds]+strings.Repeat("A", len(key)-idEnds))
	status, answer := forged.call(http.MethodGet, s.url+"/v1/info", "")
	require.Equal(t, "401", status)
	require.Contains(t, answer, "credentials-invalid")
	require.NotContains(t, s.Log(), key)
}
