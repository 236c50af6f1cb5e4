package servertest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access/keys"
	"github.com/tidemark-dev/tidemark/internal/api/records"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/certs"
	"github.com/tidemark-dev/tidemark/internal/lifecycle"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/program/compose"
	"github.com/tidemark-dev/tidemark/internal/program/config"
	"github.com/tidemark-dev/tidemark/internal/program/overview"
	"github.com/tidemark-dev/tidemark/internal/records/keyspace"
	"github.com/tidemark-dev/tidemark/internal/wire"
	"github.com/tidemark-dev/tidemark/receipt"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/storage"
	"github.com/tidemark-dev/tidemark/storage/redis"
	credentials "github.com/tidemark-dev/tidemark/storage/redis/access"
	"github.com/tidemark-dev/tidemark/storage/redis/channels"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	kept "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Harness is a server on a real Redis, with its own key prefix, and a client.
type Harness struct {
	TB       testing.TB
	URL      string
	Addr     string
	GRPCAddr string // of the listener of gRPC
	// OpenMatch are the addresses of the listeners of Open Match's services, by their names.
	OpenMatch map[string]string
	adminAddr string
	Client    *http.Client
	Store     *FaultyStore
	Service   *channel.Service
	Matches   *service.Service // nil: no matchmaking
	Server    *server.Server
	Receipts  *receipt.Keyring
	History   *overview.History // gets no points by itself
	Problems  *overview.Problems
	Logs      *Logs
	Redis     *redistest.Node
	Prefix    string

	Listener net.Listener
	Stop     context.CancelFunc // begins to drain
	Stopped  chan error         // what Run returned
}

// Setup holds the options of a harness that a test may change.
type Setup struct {
	server.Options
	queues  []matchmaking.Definition // configured; nil: no matchmaking
	Redis   *redistest.Node          // nil: the one that all tests share
	Timeout time.Duration            // of the store; 0: its default
	Certs   *certs.Keeper            // nil: without TLS
	Admin   net.Listener             // nil: one on a free port
	Token   func(ctx context.Context, ticket string, created time.Time) string
	Kept    func(*config.RecordOptions) // changes the options of records
	Prefix  string                      // of keys; empty: a new one
	Signing *receipt.Keyring            // nil: a new one
	// OpenMatch are the services of Open Match that have listeners of their own.
	OpenMatch []string
}

// Start returns a harness that ends with the test.
func Start(t testing.TB, changes ...func(*Setup)) *Harness {
	t.Helper()
	h := &Harness{TB: t, Prefix: redistest.Prefix(t), Logs: NewLogs(), Stopped: make(chan error, 1)}
	s := Setup{}
	s.Options = server.Options{
		Version: "test", Logger: slog.New(h.Logs), Metrics: prometheus.NewRegistry(),
		DurableStreams:  server.DefaultDurableStreams,
		Storage:         func() storage.Description { return ShownStorage },
		StorageWarnings: []string{"The append-only file is off."},
	}
	for _, change := range changes {
		change(&s)
	}
	h.Prefix = cmp.Or(s.Prefix, h.Prefix)
	if h.Redis = s.Redis; h.Redis == nil {
		h.Redis = redistest.Standalone(t)
	}
	conn, err := redis.Connect(t.Context(), redis.Options{URL: h.Redis.URL(), KeyPrefix: h.Prefix, Timeout: s.Timeout,
		Logger: s.Logger})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	opened, err := channels.New(conn, channels.Options{})
	require.NoError(t, err)
	t.Cleanup(opened.Close)
	h.Store = &FaultyStore{Store: opened}
	if s.Ready == nil {
		s.Ready = conn.Ready
	}
	if h.Receipts = s.Signing; h.Receipts == nil {
		h.Receipts = Keyring(t)
	}
	h.Service = newService(t, h.Store, h.Receipts)
	s.Service = h.Service
	if s.queues != nil {
		h.Matches = newMatchmaking(t, conn, &faultyLookup{Lookup: queues.NewLookup(conn), store: h.Store}, h.Service,
			&s)
		s.Matchmaking, s.Fetcher = h.Matches, newFetcher(t, conn, h.Matches)
	}
	s.Records = recordsOn(t, conn, h.Service, s.Kept)
	if s.Keys == nil {
		s.Keys, err = keys.New(keys.Options{Store: credentials.New(conn), Logger: s.Logger})
		require.NoError(t, err)
	}
	if s.Reload == nil {
		s.Reload = func(context.Context) (client.Reloaded, error) {
			return client.Reloaded{Changes: []client.OptionChange{}, Restart: []string{}}, nil
		}
	}
	if s.Configuration == nil {
		s.Configuration = func(context.Context) (wire.Configuration, error) {
			return wire.Configuration{Options: []wire.ConfiguredOption{{Option: "grace", Group: "Server", Value: "30s"}}}, nil
		}
	}
	h.History, h.Problems = overview.NewHistory(s.Metrics, "server"), &overview.Problems{}
	if s.Status == nil {
		s.Status = &overview.Board{Points: h.History, Found: h.Problems}
	}
	if s.Shards == nil {
		s.Shards = func(context.Context, string) (wire.ShardedCaches, error) {
			return wire.ShardedCaches{Caches: []wire.ShardedCache{}}, nil
		}
	}
	if s.SlowLogs == nil {
		s.SlowLogs = func(_ context.Context, limit int) client.SlowLogs {
			call := client.SlowCall{At: time.Unix(1_700_000_000, 0).UTC(), Micros: 12_345, Command: "EVALSHA",
				Script: "channels/publish", Keys: []string{"c.{lobby}.clock"}, Client: "10.0.0.7:5312 tidemark"}
			return client.SlowLogs{Redis: []client.RedisSlowLogs{{Of: "channels", Logs: []client.SlowLog{
				{Address: "10.0.0.5:6379", Calls: slices.Repeat([]client.SlowCall{call}, limit)},
				{Address: "10.0.0.6:6379", Calls: []client.SlowCall{}, Error: "NOPERM", Remedy: "ACL SETUSER"},
			}}}}
		}
	}
	s.Survey = surveyOf(t, conn)
	h.Server = server.New(s.Options)
	h.Client = Client(t, false)
	h.run(s)
	return h
}

// surveyOf returns a survey of the keys of a Redis.
func surveyOf(t testing.TB, conn *redis.Conn) *keyspace.Job {
	t.Helper()
	c, err := config.Load(pflag.NewFlagSet("serve", pflag.ContinueOnError), nil)
	require.NoError(t, err)
	job := keyspace.NewJob(c.Records.Site.Table, map[string]keyspace.Source{"channels": kept.NewKeySource(conn)})
	parts := lifecycle.New(t.Context())
	t.Cleanup(func() { require.NoError(t, parts.Stop()) })
	parts.Run(t.Context(), "survey", job.Run)
	return job
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

// Keyring returns keys for receipts.
func Keyring(t testing.TB) *receipt.Keyring {
	t.Helper()
	key, err := receipt.GenerateKey()
	require.NoError(t, err)
	ring, err := receipt.NewKeyring(key)
	require.NoError(t, err)
	return ring
}

// MaxMessageBytes is the largest message in tests.
const MaxMessageBytes = 1000

// newService returns a service that runs until the test ends.
func newService(t testing.TB, store channel.Store, receipts *receipt.Keyring) *channel.Service {
	t.Helper()
	policies, err := channel.NewPolicies(
		channel.Policy{TTL: time.Minute, MaxMessageBytes: MaxMessageBytes},
		[]channel.Rule{{Pattern: `life-(?P<ttl>.+)`, TTL: "${ttl}"}},
	)
	require.NoError(t, err)
	service, err := channel.NewService(channel.Options{
		Store: store, Receipts: receipts, Policies: policies, Limits: channel.DefaultLimits(),
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	run(t, service.Run)
	return service
}

// run serves on a free port until the test ends or stop is called.
func (h *Harness) run(s Setup) {
	h.TB.Helper()
	listen := func(protocols ...string) net.Listener {
		l, err := (&net.ListenConfig{}).Listen(h.TB.Context(), "tcp", "127.0.0.1:0")
		require.NoError(h.TB, err)
		if s.Certs != nil {
			return tls.NewListener(l, s.Certs.Config(protocols...))
		}
		return l
	}
	l := listen("h2", "http/1.1")
	h.Listener, h.Addr, h.URL = l, l.Addr().String(), "http://"+l.Addr().String()
	if s.Certs != nil {
		h.URL = "https://" + h.Addr
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(h.TB.Context()))
	h.Stop = cancel
	listeners := server.Listeners{HTTP: l, Admin: s.Admin}
	if listeners.Admin == nil {
		listeners.Admin = listen("h2", "http/1.1")
	}
	h.adminAddr = listeners.Admin.Addr().String()
	if h.Matches != nil {
		listeners.GRPC = listen("h2")
		h.GRPCAddr = listeners.GRPC.Addr().String()
		h.OpenMatch, listeners.OpenMatch = map[string]string{}, map[string]net.Listener{}
		for _, service := range s.OpenMatch {
			listeners.OpenMatch[service] = listen("h2", "http/1.1")
			h.OpenMatch[service] = listeners.OpenMatch[service].Addr().String()
		}
	}
	go func() {
		h.Stopped <- h.Server.Run(ctx, listeners)
		close(h.Stopped)
	}()
	h.TB.Cleanup(func() {
		cancel()
		h.Client.CloseIdleConnections()
		for err := range h.Stopped {
			require.NoError(h.TB, err)
		}
	})
}

// OnAdmin returns a harness whose client sends its requests to the admin listener.
func (h *Harness) OnAdmin() *Harness {
	admin := *h
	admin.URL, admin.Addr = strings.Replace(h.URL, h.Addr, h.adminAddr, 1), h.adminAddr
	return &admin
}

// Answer is an answer of the server.
type Answer struct {
	TB     testing.TB
	Status int
	Header http.Header
	Body   []byte
	Last   bool // the server closes the connection
}

// Header is one header of a request.
type Header struct{ Name, Value string }

// Do sends a request, with the path as it is, and checks the answer against docs/openapi.yaml. JSON is decompressed.
func (h *Harness) Do(method, path, body string, headers ...Header) Answer {
	h.TB.Helper()
	got, err := h.Try(h.TB.Context(), method, path, strings.NewReader(body), headers...)
	require.NoError(h.TB, err)
	return got
}

// Try is do for requests that may fail.
func (h *Harness) Try(ctx context.Context, method, path string, body io.Reader, headers ...Header) (Answer, error) {
	h.TB.Helper()
	req, err := http.NewRequestWithContext(ctx, method, h.URL, body)
	require.NoError(h.TB, err)
	req.URL.Opaque, req.URL.RawQuery, _ = strings.Cut(path, "?") // sent unchanged, even if it is invalid
	for _, set := range headers {
		req.Header.Set(set.Name, set.Value)
		if set.Name == "Host" {
			req.Host = set.Value
		}
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer func() { require.NoError(h.TB, resp.Body.Close()) }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, err
	}
	asStored := method == http.MethodGet && strings.HasPrefix(path, "/v1/cache/") && resp.StatusCode == http.StatusOK ||
		strings.HasPrefix(path, server.DefaultDurableStreams) && resp.StatusCode < http.StatusBadRequest
	if resp.Header.Get("Content-Encoding") == "gzip" && strings.Contains(resp.Header.Get("Content-Type"), "json") {
		plain, err := gzip.NewReader(bytes.NewReader(data))
		require.NoError(h.TB, err)
		data, err = io.ReadAll(plain)
		require.NoError(h.TB, err)
	}
	if strings.Contains(resp.Header.Get("Content-Type"), "json") && method != http.MethodHead && !asStored {
		require.True(h.TB, bytes.HasSuffix(data, []byte("}\n")) || bytes.HasSuffix(data, []byte("]\n")),
			"the body ends with a newline: %q", data)
		data = bytes.TrimSuffix(data, []byte("\n"))
	}
	got := Answer{TB: h.TB, Status: resp.StatusCode, Header: resp.Header, Body: data, Last: resp.Close}
	require.NotEmpty(h.TB, got.Header.Get("Date"))
	got.IsSafe()
	CheckContract(h.TB, method, req.URL.Opaque, got)
	return got, nil
}

// IsSafe checks the headers that keep browsers and caches from storing, guessing, and using it in pages of other
// origins.
func (a Answer) IsSafe() {
	a.TB.Helper()
	require.Regexp(a.TB, "^((private, )?no-store(, no-transform)?|no-cache(, no-transform)?|(public|private), max-age=.*)$", a.Header.Get("Cache-Control"))
	require.Equal(a.TB, []string{"nosniff"}, a.Header["X-Content-Type-Options"])
	require.Equal(a.TB, []string{"same-origin"}, a.Header["Cross-Origin-Resource-Policy"])
}

// Expect checks the status and the body.
func (a Answer) Expect(status int, body string) {
	a.TB.Helper()
	require.Equal(a.TB, body, string(a.Body))
	require.Equal(a.TB, status, a.Status)
}

// Like checks the status, and the body as JSON.
func (a Answer) Like(status int, body string) {
	a.TB.Helper()
	require.Equal(a.TB, status, a.Status, "%s", a.Body)
	require.JSONEq(a.TB, body, string(a.Body))
}

// Problem checks that the answer is a problem with this slug, and returns it.
func (a Answer) Problem(status int, slug fault.Slug) client.Problem {
	a.TB.Helper()
	require.Equal(a.TB, status, a.Status, "%s", a.Body)
	require.Equal(a.TB, wire.MediaProblem, a.Header.Get("Content-Type"))
	p := Decode[client.Problem](a)
	require.Equal(a.TB, slug, p.Slug())
	require.Equal(a.TB, status, p.Status)
	require.Equal(a.TB, a.Header.Get("X-Request-Id"), p.RequestID)
	return p
}

// OldError checks that the answer is an error of the predecessor's API.
func (a Answer) OldError(status int, code string) wire.OldError {
	a.TB.Helper()
	require.Equal(a.TB, status, a.Status, "%s", a.Body)
	require.Equal(a.TB, wire.MediaJSON, a.Header.Get("Content-Type"))
	e := Decode[wire.OldError](a)
	require.Equal(a.TB, code, e.Code)
	return e
}

// Decode decodes the body of an answer.
func Decode[T any](a Answer) T {
	a.TB.Helper()
	var v T
	require.NoError(a.TB, json.Unmarshal(a.Body, &v), "%s", a.Body)
	return v
}

// Publish publishes one message.
func (h *Harness) Publish(channel, id, content string) {
	h.TB.Helper()
	h.Do("PUT", "/v1/channels/"+channel+"/messages/"+id, content)
}

// Subscribe adds a subscriber that starts at the latest.
func (h *Harness) Subscribe(channel, subscriber string) client.Subscription {
	h.TB.Helper()
	return Decode[client.Subscription](h.Do("PUT", "/v1/channels/"+channel+"/subscribers/"+subscriber, ""))
}

// Deliveries is the answer to a fetch from several channels, as clients receive it.
type Deliveries struct {
	Deliveries []client.SourceDelivery `json:"deliveries"`
	Problems   []wire.SourceProblem    `json:"problems"`
}

// Fetch fetches without waiting.
func (h *Harness) Fetch(channel, subscriber string) client.Delivery {
	h.TB.Helper()
	got := h.Do("GET", "/v1/channels/"+channel+"/subscribers/"+subscriber+"/messages", "")
	require.Equal(h.TB, http.StatusOK, got.Status, "%s", got.Body)
	return Decode[client.Delivery](got)
}

// ShownStorage is what /v1/info shows in tests.
var ShownStorage = storage.Description{
	Kind: "standalone", Product: "redis", Version: "7.0.15",
	Durability: storage.Durability{
		Level: storage.DurableMemory, Fsync: "everysec", EvictionPolicy: "noeviction",
	},
}

// With checks the status of an answer.
func (a Answer) With(status int) Answer {
	a.TB.Helper()
	require.Equal(a.TB, status, a.Status, "%s", a.Body)
	return a
}

// router returns the server's router.
func (h *Harness) router() *web.Router {
	h.TB.Helper()
	router, ok := h.Server.Handler().(*web.Router)
	require.True(h.TB, ok)
	return router
}

// Routes returns the routes of the server.
func (h *Harness) Routes() []web.Route { return h.router().Routes() }

// BodyBytes returns how much memory the bodies of requests take.
func (h *Harness) BodyBytes() int64 { return h.router().BodyBytes() }

// AnswerBytes returns how much memory unread answers take.
func (h *Harness) AnswerBytes() int64 { return h.router().Answers().Bytes() }
