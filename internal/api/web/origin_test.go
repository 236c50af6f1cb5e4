package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestCrossOrigin sends the requests of a browser for a page of another origin, without a preflight request.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	subscribed := h.Subscribe("c", "s")
	for name, headers := range map[string][]servertest.Header{
		"a form": {{Name: "Origin", Value: servertest.Evil}, {Name: "Sec-Fetch-Site", Value: "cross-site"},
			{Name: "Content-Type", Value: "text/plain"}},
		"a sandboxed frame": {{Name: "Origin", Value: "null"}, {Name: "Sec-Fetch-Site", Value: "cross-site"}},
		"another port": {{Name: "Origin", Value: "http://127.0.0.1:1"},
			{Name: "Sec-Fetch-Site", Value: "same-site"}},
		"the port of another scheme": {{Name: "Origin", Value: "http://localhost"}, {Name: "Host", Value: "localhost:443"}},
		"an old browser": {{Name: "Origin", Value: servertest.Evil},
			{Name: "Content-Type", Value: "text/plain"}},
		"one that hides its origin": {{Name: "Sec-Fetch-Site", Value: "cross-site"}},
	} {
		for _, call := range []string{
			`POST /v1/channels/c/messages {"content":1}`, `POST /v1/tickets {}`, `POST ` + servertest.At + `/next {}`,
			`DELETE ` + servertest.At,
		} {
			method, path, body := servertest.Cut(call)
			h.Do(method, path, body, headers...).Problem(403, fault.SlugCrossOrigin)
		}
		h.Do("PUT", "/channel/c/message/a", "1", headers...).OldError(403, "")
		require.Equal(t, 403, h.Do("POST", "/openmatch.FrontendService/CreateTicket", `{}`, headers...).Status, name)
	}
	require.Equal(t, subscribed.Mark, h.Subscribe("c", "late").Mark, "nothing was published")

	for name, headers := range map[string][]servertest.Header{
		"no browser":        {{Name: "Content-Type", Value: "text/plain"}},
		"a page of its own": {{Name: "Origin", Value: h.URL}, {Name: "Sec-Fetch-Site", Value: "same-origin"}},
		"an old one":        {{Name: "Origin", Value: h.URL}},
		"the port of https": {{Name: "Origin", Value: "https://localhost"}, {Name: "Host", Value: "localhost:443"}},
		"the port of http":  {{Name: "Origin", Value: "http://localhost"}, {Name: "Host", Value: "localhost:80"}},
		"an address bar":    {{Name: "Sec-Fetch-Site", Value: "none"}},
	} {
		require.Equal(t, 201, h.Do("POST", "/v1/channels/c/messages", `{"content":1}`, headers...).Status, name)
	}
	require.Equal(t, 200, h.Do("GET", "/v1/channels/c", "", servertest.Header{Name: "Origin", Value: servertest.Evil},
		servertest.Header{Name: "Sec-Fetch-Site", Value: "cross-site"}).Status,
		"the page can't read it")
}

// TestTrustedOrigins: pages of configured origins can publish.
func TestTrustedOrigins(t *testing.T) {
	t.Parallel()
	for _, trusted := range []string{"https://app.example.com", "https://*.example.com", "*"} {
		h := servertest.Start(t, func(s *servertest.Setup) { s.CORS = server.CORS{AllowOrigins: []string{trusted}} })
		publish := func(origin string) int {
			return h.Do("POST", "/v1/channels/c/messages", `{"content":1}`,
				servertest.Header{Name: "Origin", Value: origin},
				servertest.Header{Name: "Sec-Fetch-Site", Value: "cross-site"}).Status
		}
		require.Equal(t, 201, publish("https://app.example.com"), trusted)
		for _, other := range []string{"https://app.example.com.evil.com", "http://app.example.com",
			"https://evil.com/.example.com"} {
			if trusted != "*" {
				require.Equal(t, 403, publish(other), "%s %s", trusted, other)
			}
		}
	}
}

// TestHosts calls a service on a loopback address under names that may resolve to it.
func TestHosts(t *testing.T) {
	t.Parallel()
	always := []string{"127.0.0.1", "127.0.0.1:80", "[::1]:8080", "[::1]", "10.1.2.3:1", "localhost", "LOCALHOST:8080",
		"localhost.", "tidemark.localhost"}
	strange := []string{"evil.example.com", "evil.example.com:8080", "127.0.0.1.evil.example.com",
		"localhost.evil.example.com", "mine.example.com.evil.com", "a:b", "[::1", "::1]", "[[::1]]"}
	mine := []string{"mine.example.com", "Mine.Example.Com:8080", "a.b.other.example.com"}
	call := func(h *servertest.Harness, path, host string) servertest.Answer {
		got := h.Raw("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
		got.Body = []byte(strings.TrimSuffix(string(got.Body), "\n"))
		return got
	}
	plain := servertest.Start(t)
	named := servertest.Start(t,
		func(s *servertest.Setup) { s.AllowHosts = []string{"mine.example.com", "*.other.example.com"} })
	for _, host := range always {
		require.Equal(t, 200, call(plain, "/v1/info", host).Status, host)
		require.Equal(t, 200, call(named, "/v1/info", host).Status, host)
	}
	for _, host := range mine {
		require.Equal(t, 200, call(named, "/v1/info", host).Status, host)
		call(plain, "/v1/info", host).Problem(421, fault.SlugUnknownHost)
	}
	for _, host := range strange {
		for _, h := range []*servertest.Harness{plain, named} {
			call(h, "/v1/info", host).Problem(421, fault.SlugUnknownHost)
			call(h, "/probe/liveness", host).OldError(421, "")
		}
	}
}

// TestHostsOfOpenServices calls services on an address that other machines reach, as in a container: one that needs no
// credentials has no names but the configured ones.
func TestHostsOfOpenServices(t *testing.T) {
	t.Parallel()
	get := func(handler http.Handler, path, host string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody), httptest.NewRecorder()
		r.Host = host
		handler.ServeHTTP(w, r)
		return w
	}
	people := new(servertest.People)
	open, closed := servertest.Start(t).Server, servertest.Start(t, servertest.Closed(t, people)).Server
	named := servertest.Start(t, func(s *servertest.Setup) { s.AllowHosts = []string{"tidemark"} }).Server
	for _, path := range []string{"/livez", "/v1/openapi.yaml", "/"} {
		for _, handlerOf := range []func(*server.Server) http.Handler{(*server.Server).Handler, (*server.Server).AdminHandler} {
			for _, host := range []string{"172.17.0.2:8080", "localhost:8080", "[fd00::1]:8080", "tidemark:8080"} {
				require.Less(t, get(handlerOf(named), path, host).Code, 400, host)
			}
			require.Equal(t, 200, get(handlerOf(open), "/livez", "172.17.0.2:8080").Code)
			for _, host := range []string{"evil.example:8080", "tidemark", "tidemark.evil.example"} {
				require.Equal(t, 421, get(handlerOf(open), path, host).Code, host)
				require.NotEqual(t, 421, get(handlerOf(closed), path, host).Code, host)
			}
			require.Equal(t, 421, get(handlerOf(named), path, "evil.example").Code)
		}
	}
	require.Contains(t, get(open.Handler(), "/v1/info", "Tidemark:8080").Body.String(),
		"--allow-hosts tidemark, TIDEMARK_ALLOW_HOSTS=tidemark,", "the answer has the remedy")
	require.NotContains(t, get(open.Handler(), "/v1/info", "a'b").Body.String(), "a'b")
}

// TestAuthorities calls the listener of gRPC under names.
func TestAuthorities(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(),
		func(s *servertest.Setup) { s.AllowHosts = []string{"tidemark"} })
	for authority, want := range map[string]codes.Code{
		"tidemark:50504": codes.NotFound, "127.0.0.1:50504": codes.NotFound, "evil.example": codes.PermissionDenied,
	} {
		conn, err := grpc.NewClient(h.GRPCAddr, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithAuthority(authority))
		require.NoError(t, err)
		_, err = openmatch.NewFrontendServiceClient(conn).GetTicket(t.Context(),
			&openmatch.GetTicketRequest{TicketId: "nobody"})
		require.Equal(t, want, status.Code(err), "%s: %v", authority, err)
		health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health.GetStatus())
		require.NoError(t, conn.Close())
	}
}

// TestPagesOnAdmin sends the requests that only read, of a browser that was made to call an admin address which isn't a
// loopback one: without TLS it sends neither Origin nor Sec-Fetch-Site there.
func TestPagesOnAdmin(t *testing.T) {
	t.Parallel()
	admin := servertest.Start(t).OnAdmin()
	firefox := servertest.Header{Name: "User-Agent", Value: "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"}
	for name, headers := range map[string][]servertest.Header{
		"an image":                       {firefox, {Name: "Referer", Value: servertest.Evil + "/"}},
		"an image without a Referer":     {firefox},
		"a page of another port":         {firefox, {Name: "Referer", Value: "http://127.0.0.1:1/console/"}},
		"a modern browser":               {firefox, {Name: "Sec-Fetch-Site", Value: "cross-site"}},
		"a request of CORS":              {firefox, {Name: "Origin", Value: servertest.Evil}},
		"a page that claims its address": {firefox, {Name: "Referer", Value: servertest.Evil + "/?" + admin.URL}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/metrics", "/v1/keys", "/v1/info"} {
				require.Equal(t, 403, admin.Do("GET", path, "", headers...).Status, path)
			}
			require.Equal(t, 200, admin.Do("GET", "/console/", "", headers[:1]...).Status, "it has no data")
		})
	}
	for name, headers := range map[string][]servertest.Header{
		"Prometheus":        {{Name: "User-Agent", Value: "Prometheus/3.5.0"}},
		"the console":       {firefox, {Name: "Referer", Value: admin.URL + "/console/queues"}},
		"one on loopback":   {firefox, {Name: "Sec-Fetch-Site", Value: "same-origin"}},
		"with a credential": {firefox, {Name: "Authorization", Value: "Bearer x"}},
	} {
		require.Equal(t, 200, admin.Do("GET", "/v1/keys", "", headers...).Status, name)
	}
}
