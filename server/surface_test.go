package server_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/api/durable"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Do("GET", "/v1/info", "").Like(200, `{
		"version": "test", "access": "open",
		"storage": {"kind": "standalone", "product": "redis", "version": "7.0.15", "durability": {
			"level": "memory", "appendOnly": false, "fsync": "everysec", "replicas": 0, "evictionPolicy": "noeviction",
			"maxMemoryBytes": 0, "warnings": ["The append-only file is off."]}},
		"limits": {"maxChannelBytes": 512, "maxNameBytes": 128, "maxBodyBytes": 1048576, "maxBatch": 250, "defaultMax": 64, "maxMax": 1000,
			"maxFetchBytes": 4194304, "maxWaitMs": 60000}}`)
	h.Do("GET", "/v1/info?x=1", "").Problem(400, fault.SlugInvalidQuery)
}

func TestProbes(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, path := range []string{"/livez", "/readyz", "/readyz?verbose"} {
		h.Do("GET", path, "").Expect(200, `{"status":"ok"}`)
		h.Do("HEAD", path, "").Expect(200, "")
	}
	for _, path := range []string{"/healthz", "/healthz?readiness=true"} {
		h.Do("GET", path, "").Expect(200, "ok")
		h.Do("HEAD", path, "").Expect(200, "")
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for _, sane := range []string{"a", "7c9e-%{}", strings.Repeat("i", 128)} {
		require.Equal(t, sane,
			h.Do("GET", "/livez", "", servertest.Header{Name: "X-Request-Id", Value: sane}).Header.Get("X-Request-Id"))
		require.Equal(t, "/livez", h.Logs.Request(t, sane).Attributes["path"])
	}
	seen := map[string]bool{}
	for _, insane := range []string{"", "a b", "tab\tbed", "é", strings.Repeat("i", 129)} {
		id := h.Do("GET", "/nothing", "", servertest.Header{Name: "X-Request-Id", Value: insane}).Header.Get(
			"X-Request-Id")
		_, err := ulid.ParseStrict(id)
		require.NoError(t, err, "%q", insane)
		require.False(t, seen[id])
		seen[id] = true
		require.Equal(t, "404", h.Logs.Request(t, id).Attributes["status"])
	}
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	id := h.Do("GET", "/v1/channels/a%2F", "").Header.Get("X-Request-Id")
	logged := h.Logs.Request(t, id)
	require.Equal(t, slog.LevelDebug, logged.Level)
	require.Equal(t, "/v1/channels/a%2F", logged.Attributes["path"])
	require.Equal(t, "GET", logged.Attributes["method"])
	require.Equal(t, "400", logged.Attributes["status"])
	require.Contains(t, logged.Attributes["error"], "channel name")
	require.NotEmpty(t, logged.Attributes["client"])
	require.NotEmpty(t, logged.Attributes["elapsed"])
}

// TestEveryAnswerIsSafe calls every route, and unknown paths and methods, with an empty and with a malformed body.
func TestEveryAnswerIsSafe(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	calls := []string{"GET /nothing", "PATCH /v1/info", "OPTIONS /v1/info", "OPTIONS /nothing",
		"OPTIONS /openmatch.FrontendService/GetTicket"}
	for _, r := range h.Routes() {
		calls = append(calls, r.Method+" "+strings.NewReplacer(":channel", "c", ":subscriber", "s", ":id", "i",
			":queue", "q").Replace(r.Path))
	}
	for _, call := range calls {
		for _, contentType := range []string{"text/plain", "application/json", "application/grpc",
			"application/grpc-web+proto"} {
			method, path, _ := strings.Cut(call, " ")
			for _, body := range []string{"", "nonsense"} {
				request, err := http.NewRequestWithContext(t.Context(), method, h.URL+path, strings.NewReader(body))
				require.NoError(t, err)
				request.Header.Set("Content-Type", contentType)
				resp, err := h.Client.Do(request)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				servertest.Answer{TB: t, Header: resp.Header}.IsSafe()
			}
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	for path, allow := range map[string]string{
		"/v1/channels/c/messages": "OPTIONS, POST", servertest.At: "OPTIONS, DELETE, PUT",
		servertest.At + "/messages": "OPTIONS, GET",
		"/v1/info":                  "OPTIONS, GET, HEAD",
	} {
		got := h.Do("OPTIONS", path, "")
		got.Expect(http.StatusNoContent, "")
		require.Equal(t, allow, got.Header.Get("Allow"))
		require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"))
	}
	require.Equal(t, http.StatusNotFound, h.Do("OPTIONS", "/nothing", "").Status)
	h.Do("HEAD", servertest.At+"/messages", "").Expect(http.StatusMethodNotAllowed, "")
}

func TestCORS(t *testing.T) {
	t.Parallel()
	const mine = "https://app.example.com"
	h := servertest.Start(t, func(s *servertest.Setup) { s.CORS = server.CORS{AllowOrigins: []string{mine}} })
	preflight := h.Do("OPTIONS", servertest.At+"/ack", "", servertest.Header{Name: "Origin", Value: mine},
		servertest.Header{Name: "Access-Control-Request-Method", Value: "POST"},
		servertest.Header{Name: "Access-Control-Request-Headers", Value: "content-type"})
	preflight.Expect(http.StatusNoContent, "")
	for name, value := range map[string]string{
		"Origin": mine, "Methods": "OPTIONS, POST",
		"Headers": "Authorization,Content-Type,X-Request-Id,Traceparent,Tracestate,Baggage,Connect-Protocol-Version,Connect-Timeout-Ms,Grpc-Timeout,X-Grpc-Web,X-User-Agent,Tidemark-Match,Tidemark-Queue,Tidemark-Ticket-Id,Last-Event-Id," +
			strings.Join(durable.RequestHeaders, ","),
	} {
		require.Equal(t, value, preflight.Header.Get("Access-Control-Allow-"+name))
	}
	require.Equal(t, "3600", preflight.Header.Get("Access-Control-Max-Age"))
	require.Equal(t, "true", preflight.Header.Get("Access-Control-Allow-Credentials"))

	for _, path := range []string{"/v1/info", "/v1/channels/c", "/nothing"} { // errors too
		got := h.Do("GET", path, "", servertest.Header{Name: "Origin", Value: mine})
		require.Equal(t, mine, got.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t,
			"X-Request-Id,Retry-After,Location,Www-Authenticate,Ratelimit,Ratelimit-Policy,Grpc-Status,Grpc-Message,Grpc-Status-Details-Bin,"+
				strings.Join(durable.ResponseHeaders, ","), got.Header.Get("Access-Control-Expose-Headers"))
		require.Equal(t, "Origin", got.Header.Get("Vary"))
		require.Empty(t,
			h.Do("GET", path, "", servertest.Header{Name: "Origin", Value: "https://evil.example.com"}).Header.Get(
				"Access-Control-Allow-Origin"))
	}
}

// TestCORSOfAll: pages of everybody can't ask with what the browser has for the service's site, such as a certificate.
func TestCORSOfAll(t *testing.T) {
	t.Parallel()
	for pattern, origin := range map[string]string{"*": "*", "https://*": "https://app.example.com",
		"https://*:8443": "https://app.example.com:8443", "https://*.*": "https://app.example.com"} {
		h := servertest.Start(t, func(s *servertest.Setup) { s.CORS = server.CORS{AllowOrigins: []string{pattern}} })
		of := strings.Replace(origin, "*", "https://app.example.com", 1)
		got := h.Do("GET", "/v1/info", "", servertest.Header{Name: "Origin", Value: of})
		require.Equal(t, origin, got.Header.Get("Access-Control-Allow-Origin"))
		require.Empty(t, got.Header.Get("Access-Control-Allow-Credentials"))
	}
}

func TestNoCORSByDefault(t *testing.T) {
	t.Parallel()
	got := servertest.Start(t).Do("GET", "/v1/info", "",
		servertest.Header{Name: "Origin", Value: "https://app.example.com"})
	require.Empty(t, got.Header.Get("Access-Control-Allow-Origin"))
	require.Empty(t, got.Header.Get("Vary"))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	h.Subscribe("c", "s")
	h.Do("POST", "/v1/channels/c/messages", `[{"id":"a","content":1},{"id":"b","content":1},{"id":"a","content":2}]`)
	h.Redis.Do(t, "DEL", h.Prefix+"c.{c}.m.1")
	fetched := h.Fetch("c", "s")
	require.EqualValues(t, 1, fetched.Expired)
	handle := fetched.ReceiptHandle
	h.Do("POST", servertest.At+"/next", `{"receiptHandle":"`+handle+`"}`)
	h.Do("POST", servertest.At+"/ack", `{"receiptHandle":"`+handle+`"}`)
	h.Do("POST", servertest.At+"/next", "") // acknowledges nothing
	h.Do("PUT", "/channel/c/message/c", "1")
	old := servertest.Decode[wire.OldDelivery](h.Do("GET", servertest.OldAt, ""))
	h.Do("DELETE", servertest.OldAt+"/message?ackHandle="+old.AckHandle, "")
	h.Do("BREW", "/v1/info", "")
	h.Do("BREW", "/nothing", "")
	h.Do("POST", "/v1/channels/c/messages", "")
	polls := h.Waiting(t.Context(), 1, "GET /v1/channels/c/subscribers/s/messages?wait=1m&max=1")
	got := h.OnAdmin().Do("GET", "/metrics", "")
	require.Equal(t, http.StatusOK, got.Status)
	h.OnAdmin().Do("HEAD", "/metrics", "")
	for _, line := range []string{
		"tidemark_messages_published_total 3",
		"tidemark_messages_duplicates_total 1",
		"tidemark_messages_differing_total 1",
		"tidemark_messages_delivered_total 2",
		"tidemark_messages_expired_total 1",
		"tidemark_acks_total 3",
		`tidemark_http_requests_total{code="201",method="POST",route="/v1/channels/:channel/messages"} 1`,
		`tidemark_http_requests_total{code="400",method="POST",route="/v1/channels/:channel/messages"} 1`,
		`tidemark_http_requests_total{code="204",method="POST",route="/v1/channels/:channel/subscribers/:subscriber/ack"} 1`,
		`tidemark_http_requests_total{code="405",method="any",route="none"} 1`,
		`tidemark_http_requests_total{code="404",method="any",route="none"} 1`,
		`tidemark_http_request_seconds_count{method="POST",route="/v1/channels/:channel/messages"} 2`,
		"tidemark_waiting_fetches 1",
		"tidemark_listened_channels 1",
		"go_goroutines ",
		"process_cpu_seconds_total ",
	} {
		require.Contains(t, string(got.Body), "\n"+line)
	}
	h.Stop()
	require.Equal(t, http.StatusOK, (<-polls).Status)
}

// TestMetricsOfFetchesOfMany checks that a fetch of several channels counts what it delivers and acknowledges, as
// fetches of each of them do. A receipt that is refused isn't counted.
func TestMetricsOfFetchesOfMany(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	created := servertest.Decode[client.CreatedTicket](h.Do("POST", "/v1/tickets", `{"queue":"duel"}`))
	h.Subscribe("a", "s")
	h.Subscribe("b", "s")
	h.Do("POST", "/v1/channels/a/messages", `[{"content":1},{"content":2}]`)
	h.Do("POST", "/v1/channels/b/messages", `[{"content":1},{"content":2}]`)
	h.Redis.Do(t, "DEL", h.Prefix+"c.{b}.m.1")
	counted := func(published, delivered, expired, acks int) {
		t.Helper()
		shown := string(h.OnAdmin().Do("GET", "/metrics", "").Body)
		for name, n := range map[string]int{"messages_published": published, "messages_delivered": delivered,
			"messages_expired": expired, "acks": acks} {
			require.Contains(t, shown, fmt.Sprintf("\ntidemark_%s_total %d\n", name, n))
		}
	}
	fetch := func(from ...string) []client.SourceDelivery {
		t.Helper()
		return servertest.Decode[servertest.Deliveries](h.Do("POST", "/v1/fetch", servertest.FetchBody(from...))).Deliveries
	}
	found := fetch("a", "b", created.Channel+"/"+created.Subscriber)
	require.Len(t, found, 2)
	counted(4, 3, 1, 0)
	a, b := "a/s/"+found[0].ReceiptHandle, "b/s/"+found[1].ReceiptHandle
	require.Empty(t, fetch(a, "none/s/"+found[0].ReceiptHandle, b))
	counted(4, 3, 1, 2)
	require.Empty(t, fetch(a, created.Channel+"/"+created.Subscriber))
	counted(4, 3, 1, 3)
}
