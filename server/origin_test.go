package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
)

const evil = "https://evil.example.com"

// TestCrossOrigin sends what a browser sends for a page of another origin, without a preflight request.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	subscribed := h.subscribe("c", "s")
	for name, headers := range map[string][]header{
		"a form": {{"Origin", evil}, {"Sec-Fetch-Site", "cross-site"},
			{"Content-Type", "text/plain"}},
		"a sandboxed frame":         {{"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"}},
		"another port":              {{"Origin", "http://127.0.0.1:1"}, {"Sec-Fetch-Site", "same-site"}},
		"an old browser":            {{"Origin", evil}, {"Content-Type", "text/plain"}},
		"one that hides its origin": {{"Sec-Fetch-Site", "cross-site"}},
	} {
		for _, call := range []string{
			`POST /v1/channels/c/messages {"content":1}`, `POST /v1/tickets {}`, `POST ` + at + `/next {}`,
			`DELETE ` + at,
		} {
			method, path, body := cut(call)
			h.do(method, path, body, headers...).problem(403, fault.SlugCrossOrigin)
		}
		h.do("PUT", "/channel/c/message/a", "1", headers...).oldError(403, "")
		require.Equal(t, 403, h.do("POST", "/openmatch.FrontendService/CreateTicket", `{}`, headers...).status, name)
	}
	require.Equal(t, subscribed.Mark, h.subscribe("c", "late").Mark, "nothing was published")

	for name, headers := range map[string][]header{
		"no browser":        {{"Content-Type", "text/plain"}},
		"a page of its own": {{"Origin", h.url}, {"Sec-Fetch-Site", "same-origin"}},
		"an old one":        {{"Origin", h.url}},
		"an address bar":    {{"Sec-Fetch-Site", "none"}},
	} {
		require.Equal(t, 201, h.do("POST", "/v1/channels/c/messages", `{"content":1}`, headers...).status, name)
	}
	require.Equal(t, 200, h.do("GET", "/v1/channels/c", "", header{"Origin", evil},
		header{"Sec-Fetch-Site", "cross-site"}).status,
		"the page can't read it")
}

// TestTrustedOrigins: pages of configured origins can publish.
func TestTrustedOrigins(t *testing.T) {
	t.Parallel()
	for _, trusted := range []string{"https://app.example.com", "https://*.example.com", "*"} {
		h := start(t, func(s *setup) { s.CORS = server.CORS{AllowOrigins: []string{trusted}} })
		publish := func(origin string) int {
			return h.do("POST", "/v1/channels/c/messages", `{"content":1}`, header{"Origin", origin},
				header{"Sec-Fetch-Site", "cross-site"}).status
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
	call := func(h *harness, path, host string) answer {
		got := h.raw("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
		got.body = []byte(strings.TrimSuffix(string(got.body), "\n"))
		return got
	}
	plain := start(t)
	named := start(t, func(s *setup) { s.AllowHosts = []string{"mine.example.com", "*.other.example.com"} })
	for _, host := range always {
		require.Equal(t, 200, call(plain, "/v1/info", host).status, host)
		require.Equal(t, 200, call(named, "/v1/info", host).status, host)
	}
	for _, host := range mine {
		require.Equal(t, 200, call(named, "/v1/info", host).status, host)
		call(plain, "/v1/info", host).problem(421, fault.SlugUnknownHost)
	}
	for _, host := range strange {
		for _, h := range []*harness{plain, named} {
			call(h, "/v1/info", host).problem(421, fault.SlugUnknownHost)
			call(h, "/probe/liveness", host).oldError(421, "")
		}
	}
}
