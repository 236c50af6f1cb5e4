package web_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
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
		"localhost.evil.example.com", "mine.example.com.evil.com", "a:b"}
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
