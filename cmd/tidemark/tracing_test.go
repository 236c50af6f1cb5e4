package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/tracing/tracingtest"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/openmatch"
	"github.com/tidemark-dev/tidemark/test/load"
)

// clientTrace is the ID of the trace of a client, to which traced requests belong.
const clientTrace = "0af7651916cd43dd8448eb211c80319c"

func clientParent(n int) string { return fmt.Sprintf("00-%s-%016x-01", clientTrace, n) }

// traced is a process of the service with a collector.
type traced struct {
	*serverProcess
	*tracingtest.Collector
}

// startTraced starts a service that sends its spans to a collector at once, with further variables.
func startTraced(t *testing.T, variables []string, flags ...string) traced {
	t.Helper()
	c := tracingtest.Start(t)
	all := append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.HTTP, "OTEL_BSP_SCHEDULE_DELAY=5"}, variables...)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "$GRPC", c.GRPC)
	}
	return traced{startServerWith(t, t.TempDir(), all, append(flags, "--log-level", "debug")...), c}
}

// send sends a request with a header traceparent, unless that is empty, and returns the body of the answer.
func (s traced) send(t *testing.T, method, path, body, parent string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	r.Header.Set("Tracestate", "vendor=secret-state")
	r.Header.Set("Baggage", "user=secret-baggage")
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Less(t, answer.StatusCode, 300, "%s", text)
	return string(text)
}

const (
	publishSpan = "POST /v1/channels/:channel/messages"
	fetchSpan   = "GET /v1/channels/:channel/subscribers/:subscriber/messages"
)

func TestAFetchIsLinkedToThePublishOfItsMessage(t *testing.T) {
	t.Parallel()
	for name, variables := range map[string][]string{
		"http": {"OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20collector-token", "OTEL_SERVICE_NAME=chat",
			"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test"},
		"grpc": {"OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=$GRPC"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startTraced(t, variables)
			s.send(t, "PUT", "/v1/channels/news/subscribers/ann", "", "")
			s.send(t, "POST", "/v1/channels/news/messages", `{"content":"secret-content"}`, clientParent(1))
			s.send(t, "POST", "/v1/channels/news/messages", `[{"content":2},{"content":3}]`, clientParent(2))
			body := s.send(t, "GET", "/v1/channels/news/subscribers/ann/messages", "", "")
			require.NotContains(t, body, clientTrace, "subscribers see nothing of it")
			var d client.Delivery
			require.NoError(t, json.Unmarshal([]byte(body), &d))
			require.Len(t, d.Messages, 3)
			require.JSONEq(t, `"secret-content"`, string(d.Messages[0].Content))

			span := s.Await(t, "publish", func(s tracingtest.Span) bool { return s.Parent == "0000000000000001" })
			batch := s.Await(t, "publish", func(s tracingtest.Span) bool { return s.Parent == "0000000000000002" })
			fetch := s.Named(t, fetchSpan, "")
			require.Equal(t, []tracingtest.ID{span.ID, batch.ID}, fetch.Links)
			require.Equal(t, publishSpan, span.Name)
			require.Equal(t, clientTrace, span.Trace)
			require.Equal(t, map[string]string{
				"http.request.method": "POST", "http.route": "/v1/channels/:channel/messages",
				"http.response.status_code": "201", "network.protocol.version": "1.1", "messaging.destination.name": "news",
			}, span.Attributes)
			script := s.Await(t, "redis", func(s tracingtest.Span) bool { return s.Parent == batch.Span })
			require.Equal(t, "redis publish", script.Name)
			require.Equal(t, map[string]string{"db.system.name": "redis", "db.operation.name": "publish"}, script.Attributes)
			require.Regexp(t, `msg=request .* path=/v1/channels/news/messages status=201 .*trace_id=`+clientTrace+
				` span_id=`+span.Span, s.Log())
			if name == "http" {
				require.Equal(t, "Bearer collector-token", s.Header().Get("Authorization"))
				require.Equal(t, "chat", span.Resource["service.name"])
				require.Equal(t, "test", span.Resource["deployment.environment.name"])
			}
			s.send(t, "POST", "/v1/channels/news/subscribers/ann/ack", `{"receiptHandle":"`+d.ReceiptHandle+`"}`, "")
			s.Named(t, "POST /v1/channels/:channel/subscribers/:subscriber/ack", "")
			text := fmt.Sprintf("%+v", s.Spans())
			for _, secret := range []string{"secret-", d.ReceiptHandle} {
				require.NotContains(t, text, secret)
			}
			require.Regexp(t, `tidemark_trace_spans_total\{outcome="sent"\} [1-9]`, s.metrics(t))
		})
	}
}

func TestADeliveryOfAStreamHasATraceOfItsOwn(t *testing.T) {
	t.Parallel()
	s := startTraced(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/channels/news/subscribers/ann/stream", nil)
	require.NoError(t, err)
	s.send(t, "PUT", "/v1/channels/news/subscribers/ann", "", "")
	stream, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = stream.Body.Close() })
	opening := s.Named(t, "GET /v1/channels/:channel/subscribers/:subscriber/stream", "") // has ended, the stream not
	s.send(t, "POST", "/v1/channels/news/messages", `{"content":1}`, clientParent(1))
	publish := s.Named(t, publishSpan, clientTrace)
	delivery := s.Named(t, "deliver", "")
	require.Equal(t, []tracingtest.ID{publish.ID, opening.ID}, delivery.Links)
	require.NotContains(t, []string{publish.Trace, opening.Trace}, delivery.Trace)
	require.Equal(t, "1", delivery.Attributes["messaging.batch.message_count"])
	lines := bufio.NewScanner(stream.Body)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "event: message") {
	}
	require.NoError(t, lines.Err())
}

func TestFramesOfASocketHaveTracesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := startTraced(t, nil)
	conn, _, err := websocket.Dial(t.Context(), s.url+"/v1/socket",
		&websocket.DialOptions{Subprotocols: []string{wire.SocketProtocol}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	s.send(t, "PUT", "/v1/channels/news/subscribers/ann", "", "")
	for _, frame := range []string{`{"type":"subscribe","ref":1,"channel":"news","subscriber":"ann"}`,
		`{"type":"publish","ref":2,"channel":"news","content":1}`} {
		require.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(frame)))
	}
	subscribe, publish := s.Named(t, "socket subscribe", ""), s.Named(t, "socket publish", "")
	require.Equal(t, []tracingtest.ID{publish.ID, subscribe.ID}, s.Named(t, "deliver", "").Links)
	require.Empty(t, publish.Parent)
	require.Equal(t, "news", publish.Attributes["messaging.destination.name"])
	s.Named(t, "GET /v1/socket", "")
}

func TestAMistakeOfAClientIsNoFailure(t *testing.T) {
	t.Parallel()
	s := startTraced(t, nil)
	s.request(t, http.MethodPost, s.url+"/v1/channels/secret%20name/messages", `{"content":1}`)
	s.request(t, http.MethodPost, s.url+"/v1/channels/news/messages", `{"content":`)
	for range 2 {
		s.request(t, http.MethodGet, s.url+"/v1/channels/none", "")
	}
	missing := s.Named(t, "GET /v1/channels/:channel", "")
	require.Equal(t, "channel-not-found none 404", missing.Attributes["error.type"]+" "+
		missing.Attributes["messaging.destination.name"]+" "+missing.Attributes["http.response.status_code"])
	require.False(t, missing.Failed)
	s.Await(t, "of a body that isn't JSON", func(s tracingtest.Span) bool {
		return s.Attributes["error.type"] == "invalid-body" && !s.Failed
	})
	require.NotContains(t, fmt.Sprintf("%+v", s.Spans()), "secret", "what isn't a name may be anything")
}

// callees takes requests, and keeps the header traceparent of each path.
type callees struct {
	mu      sync.Mutex
	parents map[string]string
}

func (c *callees) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if parent := r.Header.Get("Traceparent"); parent != "" {
		c.parents[r.URL.Path] = parent
	}
	var asked struct {
		Pools map[string][]struct{ ID string }
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/allocate" {
		_, _ = io.WriteString(w, `{"connection":"game:7"}`)
		return
	}
	matches := []string{}
	for _, pool := range asked.Pools {
		if len(pool) >= 2 {
			matches = []string{fmt.Sprintf(`{"teams":[[%q],[%q]]}`, pool[0].ID, pool[1].ID)}
		}
	}
	_, _ = fmt.Fprintf(w, `{"matches":[%s]}`, strings.Join(matches, ","))
}

func (c *callees) parent(path string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parents[path]
}

func TestAMatchAndItsCallsFollowFromItsTickets(t *testing.T) {
	t.Parallel()
	called := &callees{parents: map[string]string{}}
	services := httptest.NewServer(called)
	t.Cleanup(services.Close)
	queues := strings.ReplaceAll(`{"duel":{"match":{"function":"http","url":"$URL/match?token=secret-token"},
		"assigner":{"kind":"webhook","url":"$URL/allocate"}}}`, "$URL", services.URL)
	s := startTraced(t, nil, "--queues", queues)
	s.send(t, "POST", "/v1/tickets", `{"queue":"duel","id":"ann"}`, clientParent(1))
	frontend, err := load.DialFrontend(regexp.MustCompile(` grpc=(\S+)`).FindStringSubmatch(s.Log())[1])
	require.NoError(t, err)
	t.Cleanup(frontend.Close)
	ctx := load.InTrace(load.InQueue(t.Context(), "duel"), clientParent(2))
	_, err = frontend.Create(ctx, &openmatch.Ticket{})
	require.NoError(t, err)

	ann := s.Named(t, "POST /v1/tickets", clientTrace)
	ben := s.Named(t, "openmatch.FrontendService/CreateTicket", clientTrace)
	require.Equal(t, map[string]string{"rpc.system.name": "grpc", "rpc.method": "openmatch.FrontendService/CreateTicket",
		"rpc.response.status_code": "OK"}, ben.Attributes)
	created := s.Await(t, "redis", func(s tracingtest.Span) bool { return s.Parent == ben.Span })
	require.Equal(t, "redis create", created.Name)

	match := s.Named(t, "match duel", "")
	require.ElementsMatch(t, []tracingtest.ID{ann.ID, ben.ID}, match.Links)
	require.Empty(t, match.Parent)
	allocate := s.Await(t, "allocation", func(s tracingtest.Span) bool { return s.Parent == match.Span })
	require.Equal(t, allocate.Traceparent(), called.parent("/allocate"))
	require.Equal(t, "POST", allocate.Name)
	require.Equal(t, "200", allocate.Attributes["http.response.status_code"])
	round := s.Await(t, "match function", func(s tracingtest.Span) bool { return s.Traceparent() == called.parent("/match") })
	require.Equal(t, s.Named(t, "round duel", round.Trace).Span, round.Parent)
	assign := s.Named(t, "assign duel", "")
	require.Equal(t, []tracingtest.ID{match.ID}, assign.Links)
	require.Equal(t, assign.Span, s.Named(t, "redis assign", assign.Trace).Parent)

	s.send(t, "GET", "/v1/channels/ticket.ann/subscribers/player/messages?wait=30s", "", "")
	require.Equal(t, []tracingtest.ID{match.ID}, s.Named(t, fetchSpan, "").Links)
	require.NotContains(t, fmt.Sprintf("%+v", s.Spans()), "secret-")
}

func TestClientsCannotOverruleTheRatio(t *testing.T) {
	t.Parallel()
	variables := []string{"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0"}
	s, trusting := startTraced(t, variables), startTraced(t, variables, "--trust-traces")
	for _, server := range []traced{s, trusting} {
		server.send(t, "POST", "/v1/channels/news/messages", `{"content":1}`, clientParent(1))
		server.send(t, "POST", "/v1/channels/news/messages", `{"content":1}`, "")
		server.end(t)
		server.killed = true
	}
	require.Empty(t, s.Spans())
	require.Len(t, trusting.Spans(), 2) // of the request and of the script
}

func TestACollectorThatHangsDelaysNothing(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // nobody accepts
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	const hours = "36000000"
	s := startTraced(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + l.Addr().String(), "OTEL_BSP_MAX_QUEUE_SIZE=2",
		"OTEL_EXPORTER_OTLP_TIMEOUT=" + hours, "OTEL_BSP_EXPORT_TIMEOUT=" + hours})
	for range 10 {
		s.send(t, "POST", "/v1/channels/news/messages", `{"content":1}`, "")
	}
	require.Regexp(t, `tidemark_trace_spans_total\{outcome="dropped"\} 18`, s.metrics(t))
	// startServer's cleanup ends it, which must take less than hours
}

func TestVariablesThatTheExporterRefusesAreLogged(t *testing.T) {
	t.Parallel()
	s := startTraced(t, []string{"OTEL_EXPORTER_OTLP_HEADERS=secret-token",
		"OTEL_EXPORTER_OTLP_CERTIFICATE=/no/file", "OTEL_RESOURCE_ATTRIBUTES=a=%zz,secret-item"})
	for _, action := range []string{"parse headers: ", "read tls ca cert file: open /no/file: ", "sdk: invalid URL escape",
		"sdk: an item of OTEL_RESOURCE_ATTRIBUTES isn't name=value"} {
		require.Regexp(t, `level=WARN msg="opentelemetry reports an error" error="`+action, s.Log())
	}
	require.NotContains(t, s.Log(), "secret-")
}

func TestWrongVariablesOfTracesEndTheProgram(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("tidemark")
	require.NoError(t, err)
	for _, flag := range []string{"--listen=127.0.0.1:0", "--check"} {
		cmd := exec.CommandContext(t.Context(), program, "serve", flag)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4317"}
		text, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, exitUsage, exit.ExitCode())
		require.Contains(t, string(text), "OTEL_EXPORTER_OTLP_ENDPOINT is not a URL such as http://localhost:4318")
	}
}
