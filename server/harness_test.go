package server_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/access/keys"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/cmd/tidemark/compose"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/config"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/server/internal/servertest"
	"github.com/tidemark-dev/tidemark/server/records"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	credentials "github.com/tidemark-dev/tidemark/storage/redis/access"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	kept "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/wire"
)

// harness is a server on a real Redis, with its own key prefix, and a client.
type harness struct {
	t         testing.TB
	url       string
	addr      string
	grpcAddr  string // of the listener of gRPC
	adminAddr string
	client    *http.Client
	store     *faultyStore
	service   *channel.Service
	matches   *service.Service // nil: no matchmaking
	server    *server.Server
	receipts  *receipt.Keyring
	logs      *servertest.Logs
	redis     *redistest.Node
	prefix    string

	listener net.Listener
	stop     context.CancelFunc // begins to drain
	stopped  chan error         // what Run returned
}

// setup is what a test may change of a harness.
type setup struct {
	server.Options
	queues  []matchmaking.Definition // configured; nil: no matchmaking
	redis   *redistest.Node          // nil: the one that all tests share
	timeout time.Duration            // of the store; 0: its default
	certs   *certs.Keeper            // nil: without TLS
	admin   net.Listener             // nil: one on a free port
	token   func(ctx context.Context, ticket string, created time.Time) string
	kept    func(*config.RecordOptions) // changes the options of records
	prefix  string                      // of keys; empty: a new one
}

// start returns a harness that ends with the test.
func start(t testing.TB, changes ...func(*setup)) *harness {
	t.Helper()
	h := &harness{t: t, prefix: redistest.Prefix(t), logs: servertest.NewLogs(), stopped: make(chan error, 1)}
	s := setup{}
	s.Options = server.Options{
		Version: "test", Logger: slog.New(h.logs), Metrics: prometheus.NewRegistry(),
		Storage: func() storage.Description { return shownStorage },
	}
	for _, change := range changes {
		change(&s)
	}
	h.prefix = cmp.Or(s.prefix, h.prefix)
	if h.redis = s.redis; h.redis == nil {
		h.redis = redistest.Standalone(t)
	}
	conn, err := redis.Connect(t.Context(), redis.Options{URL: h.redis.URL(), KeyPrefix: h.prefix, Timeout: s.timeout,
		Logger: s.Logger})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	opened, err := channels.New(conn, channels.Options{})
	require.NoError(t, err)
	h.store = &faultyStore{Store: opened}
	if s.Ready == nil {
		s.Ready = conn.Ready
	}
	h.receipts = newKeyring(t)
	h.service = newService(t, h.store, h.receipts)
	s.Service = h.service
	if s.queues != nil {
		h.matches = newMatchmaking(t, conn, &faultyLookup{Lookup: queues.NewLookup(conn), store: h.store}, h.service,
			&s)
		s.Matchmaking = h.matches
	}
	s.Records = recordsOn(t, conn, h.service, s.kept)
	if s.Keys == nil {
		s.Keys, err = keys.New(keys.Options{Store: credentials.New(conn), Logger: s.Logger})
		require.NoError(t, err)
	}
	h.server = server.New(s.Options)
	h.client = servertest.Client(t, false)
	h.run(s)
	return h
}

// recordsOn returns the services of records on one Redis.
func recordsOn(t testing.TB, conn *redis.Conn, channels *channel.Service,
	change func(*config.RecordOptions)) *records.Options {
	t.Helper()
	parts := lifecycle.New(t.Context())
	t.Cleanup(func() { require.NoError(t, parts.Stop()) })
	c, err := config.Load(pflag.NewFlagSet("serve", pflag.ContinueOnError), nil)
	require.NoError(t, err)
	if change != nil {
		change(&c.Records)
	}
	opened, err := compose.Open(t.Context(), compose.Needs{
		Config: c.Records, Redis: kept.Instances{Records: conn, Sessions: conn, Cache: conn}, Channels: channels,
		Parts: parts,
		Log:   slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	return &opened.API
}

func newKeyring(t testing.TB) *receipt.Keyring {
	t.Helper()
	key, err := receipt.GenerateKey()
	require.NoError(t, err)
	ring, err := receipt.NewKeyring(key)
	require.NoError(t, err)
	return ring
}

// maxMessageBytes is the largest message in tests.
const maxMessageBytes = 1000

// newService returns a service that runs until the test ends.
func newService(t testing.TB, store channel.Store, receipts *receipt.Keyring) *channel.Service {
	t.Helper()
	policies, err := channel.NewPolicies(
		channel.Policy{TTL: time.Minute, MaxMessageBytes: maxMessageBytes},
		[]channel.Rule{{Pattern: `life-(?P<ttl>.+)`, TTL: "${ttl}"}},
	)
	require.NoError(t, err)
	service, err := channel.NewService(channel.Options{
		Store: store, Receipts: receipts, Policies: policies, Limits: channel.DefaultLimits(),
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return service
}

// run serves on a free port until the test ends or stop is called.
func (h *harness) run(s setup) {
	h.t.Helper()
	listen := func(protocols ...string) net.Listener {
		l, err := (&net.ListenConfig{}).Listen(h.t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(h.t, err)
		if s.certs != nil {
			return tls.NewListener(l, s.certs.Config(protocols...))
		}
		return l
	}
	l := listen("h2", "http/1.1")
	h.listener, h.addr, h.url = l, l.Addr().String(), "http://"+l.Addr().String()
	if s.certs != nil {
		h.url = "https://" + h.addr
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.t.Context()))
	h.stop = cancel
	listeners := server.Listeners{HTTP: l, Admin: s.admin}
	if listeners.Admin == nil {
		listeners.Admin = listen("h2", "http/1.1")
	}
	h.adminAddr = listeners.Admin.Addr().String()
	if h.matches != nil {
		listeners.GRPC = listen("h2")
		h.grpcAddr = listeners.GRPC.Addr().String()
	}
	go func() {
		h.stopped <- h.server.Run(ctx, listeners)
		close(h.stopped)
	}()
	h.t.Cleanup(func() {
		cancel()
		h.client.CloseIdleConnections()
		for err := range h.stopped {
			require.NoError(h.t, err)
		}
	})
}

// onAdmin returns a harness whose client sends its requests to the admin listener.
func (h *harness) onAdmin() *harness {
	admin := *h
	admin.url, admin.addr = strings.Replace(h.url, h.addr, h.adminAddr, 1), h.adminAddr
	return &admin
}

// answer is an answer of the server.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
	last   bool // the server closes the connection
}

// header is one header of a request.
type header struct{ name, value string }

// do sends a request, with the path as it is, and checks the answer against docs/openapi.yaml.
func (h *harness) do(method, path, body string, headers ...header) answer {
	h.t.Helper()
	got, err := h.try(h.t.Context(), method, path, strings.NewReader(body), headers...)
	require.NoError(h.t, err)
	return got
}

// try is do for requests that may fail.
func (h *harness) try(ctx context.Context, method, path string, body io.Reader, headers ...header) (answer, error) {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, h.url, body)
	require.NoError(h.t, err)
	req.URL.Opaque, req.URL.RawQuery, _ = strings.Cut(path, "?") // sent unchanged, even if it is invalid
	for _, set := range headers {
		req.Header.Set(set.name, set.value)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { require.NoError(h.t, resp.Body.Close()) }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	asStored := method == http.MethodGet && strings.HasPrefix(path, "/v1/cache/") && resp.StatusCode == http.StatusOK
	if strings.Contains(resp.Header.Get("Content-Type"), "json") && method != http.MethodHead && !asStored {
		require.True(h.t, bytes.HasSuffix(data, []byte("}\n")) || bytes.HasSuffix(data, []byte("]\n")),
			"the body ends with a newline: %q", data)
		data = bytes.TrimSuffix(data, []byte("\n"))
	}
	got := answer{t: h.t, status: resp.StatusCode, header: resp.Header, body: data, last: resp.Close}
	require.NotEmpty(h.t, got.header.Get("Date"))
	got.isSafe()
	checkContract(h.t, method, req.URL.Opaque, got)
	return got, nil
}

// isSafe checks the headers that keep browsers and caches from storing and guessing.
func (a answer) isSafe() {
	a.t.Helper()
	require.Regexp(a.t, "^(private, )?no-store$", a.header.Get("Cache-Control"))
	require.Equal(a.t, []string{"nosniff"}, a.header["X-Content-Type-Options"])
}

// is checks the status and the body.
func (a answer) is(status int, body string) {
	a.t.Helper()
	require.Equal(a.t, body, string(a.body))
	require.Equal(a.t, status, a.status)
}

// like checks the status, and the body as JSON.
func (a answer) like(status int, body string) {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	require.JSONEq(a.t, body, string(a.body))
}

// problem checks that the answer is a problem with this slug, and returns it.
func (a answer) problem(status int, slug fault.Slug) wire.Problem {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	require.Equal(a.t, wire.MediaProblem, a.header.Get("Content-Type"))
	p := decode[wire.Problem](a)
	require.Equal(a.t, slug, p.Slug())
	require.Equal(a.t, status, p.Status)
	require.Equal(a.t, a.header.Get("X-Request-Id"), p.RequestID)
	return p
}

// oldError checks that the answer is an error of the predecessor's API.
func (a answer) oldError(status int, code string) wire.OldError {
	a.t.Helper()
	require.Equal(a.t, status, a.status, "%s", a.body)
	require.Equal(a.t, wire.MediaJSON, a.header.Get("Content-Type"))
	e := decode[wire.OldError](a)
	require.Equal(a.t, code, e.Code)
	return e
}

func decode[T any](a answer) T {
	a.t.Helper()
	var v T
	require.NoError(a.t, json.Unmarshal(a.body, &v), "%s", a.body)
	return v
}

// publish publishes one message.
func (h *harness) publish(channel, id, content string) {
	h.t.Helper()
	h.do("PUT", "/v1/channels/"+channel+"/messages/"+id, content)
}

// subscribe adds a subscriber that starts at the latest.
func (h *harness) subscribe(channel, subscriber string) wire.Subscription {
	h.t.Helper()
	return decode[wire.Subscription](h.do("PUT", "/v1/channels/"+channel+"/subscribers/"+subscriber, ""))
}

// fetch fetches without waiting.
func (h *harness) fetch(channel, subscriber string) wire.Delivery {
	h.t.Helper()
	got := h.do("GET", "/v1/channels/"+channel+"/subscribers/"+subscriber+"/messages", "")
	require.Equal(h.t, http.StatusOK, got.status, "%s", got.body)
	return decode[wire.Delivery](got)
}

// shownStorage is what /v1/info shows in tests.
var shownStorage = storage.Description{
	Kind: "standalone", Product: "redis", Version: "7.0.15",
	Durability: storage.Durability{
		Level: storage.DurableMemory, Fsync: "everysec", EvictionPolicy: "noeviction",
		Warnings: []string{"The append-only file is off."},
	},
}
