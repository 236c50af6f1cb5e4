package admin_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
	"github.com/tidemark-dev/tidemark/test/servertest"
)

// TestAdminListener: it serves the whole API, and routes that no other listener serves.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues())
	admin := h.OnAdmin()
	admin.Publish("c", "a", "1")
	require.Equal(t, 200, admin.Do("GET", "/v1/channels/c", "").Status)
	only := 0
	for _, r := range h.Routes() {
		if r.Admin {
			method, path := servertest.CallOf(r)
			unrouted(h.Do(method, path, ""))
			only++
		}
	}
	require.Positive(t, only)
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/goroutine",
		"/debug/pprof/heap?debug=1"} {
		require.Equal(t, 200, admin.Do("GET", path, "").Status, path)
		require.Equal(t, 200, admin.Do("HEAD", path, "").Status, path)
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof", "/debug/pprof/heap/x",
		"/debug/pprof/%2e%2e"} {
		admin.Do("GET", path, "").Problem(404, fault.SlugNoPath)
	}
	require.NotContains(t, string(h.Do("GET", "/nothing", "").Body), "admin-listen")
}

// unrouted checks that an answer is that of a nonexistent path, or of a path with other methods, and names the listener
// that has it.
func unrouted(a servertest.Answer) {
	a.TB.Helper()
	require.Contains(a.TB, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, a.Status)
	if len(a.Body) > 0 { // not after HEAD
		require.Contains(a.TB, string(a.Body), "admin-listen")
	}
}

// TestRecordings: profiles and traces have a bounded duration, are recorded for one client at a time, and end with the
// service.
func TestRecordings(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	admin := h.OnAdmin()
	for _, query := range []string{"profile?seconds=61", "trace?seconds=11", "trace?seconds=0", "profile?seconds=-1",
		"trace?seconds=NaN", "trace?seconds=x", "heap?seconds=1"} {
		admin.Do("GET", "/debug/pprof/"+query, "").Problem(400, fault.SlugInvalidQuery)
	}
	require.NotEmpty(t, admin.Do("GET", "/debug/pprof/trace?seconds=0.001", "").Body)
	recorded := make(chan servertest.Answer, 1)
	go func() {
		for {
			got, err := admin.Try(t.Context(), "GET", "/debug/pprof/trace?seconds=10", nil)
			if err != nil || got.Status != http.StatusServiceUnavailable { // during the recording below
				recorded <- got
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		return admin.Do("GET", "/debug/pprof/trace?seconds=0.001", "").Status == http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond)
	admin.Do("GET", "/debug/pprof/profile?seconds=1", "").Problem(503, fault.SlugOverloaded)
	h.Stop()
	require.Equal(t, 200, (<-recorded).Status)
}

// TestAdminListenerIsForNoPages: no page of another origin may send requests to it, independent of the CORS
// configuration.
func TestAdminListenerIsForNoPages(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t, servertest.WithQueues(),
		func(s *servertest.Setup) { s.CORS = server.CORS{AllowOrigins: []string{"*"}} })
	admin := h.OnAdmin()
	page := []servertest.Header{{Name: "Origin", Value: servertest.Evil}, {Name: "Sec-Fetch-Site", Value: "cross-site"}}
	for _, call := range []string{"GET /metrics", "GET /debug/pprof/trace", "GET /v1/info", "POST /v1/tickets {}",
		"PUT /v1/queues/q {}"} {
		method, path, body := servertest.Cut(call)
		for _, headers := range [][]servertest.Header{page, page[:1], page[1:],
			{{Name: "Sec-Fetch-Site", Value: "same-site"}}} {
			admin.Do(method, path, body, headers...).Problem(403, fault.SlugCrossOrigin)
		}
	}
	require.Equal(t, 421,
		admin.Raw("GET /metrics HTTP/1.1\r\nHost: rebound.example.com\r\nConnection: close\r\n\r\n").Status)
	preflight := admin.Do("OPTIONS", "/v1/tickets", "", servertest.Header{Name: "Origin", Value: servertest.Evil},
		servertest.Header{Name: "Access-Control-Request-Method", Value: "POST"})
	require.Empty(t, preflight.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, 200,
		admin.Do("GET", "/metrics", "", servertest.Header{Name: "Sec-Fetch-Site", Value: "none"}).Status,
		"an address bar")
	require.Equal(t, 201, h.Do("POST", "/v1/tickets", "{}", page...).Status, "as configured")
}

// TestOpenMetrics asks for the metrics as OpenMetrics, as Prometheus does, and without a preference.
func TestOpenMetrics(t *testing.T) {
	t.Parallel()
	admin := servertest.Start(t).OnAdmin()
	const accepted = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
	got := admin.Do("GET", "/metrics", "", servertest.Header{Name: "Accept", Value: accepted})
	require.Contains(t, got.Header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0;")
	require.Contains(t, string(got.Body), "# TYPE tidemark_http_connections gauge\n")
	require.True(t, strings.HasSuffix(string(got.Body), "\n# EOF\n"))
	require.Contains(t, admin.Do("GET", "/metrics", "").Header.Get("Content-Type"), "text/plain; version=0.0.4;")
}

// TestAdminListenerDrainsLast: it serves while other requests are still in progress.
func TestAdminListenerDrainsLast(t *testing.T) {
	t.Parallel()
	h := servertest.Start(t)
	entered, release := make(chan struct{}), make(chan struct{})
	h.Store.Intercept(func(context.Context, string) error {
		close(entered)
		<-release
		return nil
	})
	published := make(chan servertest.Answer, 1)
	go func() {
		got, _ := h.Try(t.Context(), "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"))
		published <- got
	}()
	<-entered
	h.Stop()
	require.Eventually(t, func() bool {
		_, err := h.Try(t.Context(), "GET", "/livez", nil)
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, 200, h.OnAdmin().Do("GET", "/metrics", "").Status)
	close(release)
	require.Equal(t, 201, (<-published).Status)
	require.NoError(t, <-h.Stopped)
	_, err := h.OnAdmin().Try(t.Context(), "GET", "/metrics", nil)
	require.ErrorContains(t, err, "refused")
}

// TestAdminSocket: the listener may be a Unix socket, on which every client is the administrator.
func TestAdminSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	var nobody servertest.People
	h := servertest.Start(t, func(s *servertest.Setup) { s.Admin = l }, servertest.Closed(t, &nobody))
	h.Do("GET", "/v1/info", "").Problem(401, fault.SlugNoCredential)
	h.Client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	for _, path := range []string{"/metrics", "/v1/info", "/debug/pprof/"} {
		require.Equal(t, 200, h.Do("GET", path, "").Status)
	}
	require.Equal(t, 201, h.Do("PUT", "/v1/channels/c/messages/a", "1").Status)
}

// slow is a metric that takes until it may end. most is how many pages were made at the same time.
type slow struct {
	prometheus.Gauge
	made, release   chan struct{}
	inside, maximum atomic.Int64
}

// Collect implements prometheus.Collector.
func (s *slow) Collect(to chan<- prometheus.Metric) {
	s.maximum.Store(max(s.maximum.Load(), s.inside.Add(1)))
	s.made <- struct{}{}
	<-s.release
	s.inside.Add(-1)
	s.Gauge.Collect(to)
}

// TestMetricsInTurns: pages of metrics are made one after the other.
func TestMetricsInTurns(t *testing.T) {
	t.Parallel()
	const pages = 4
	s := &slow{
		Gauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "slow"}),
		made:  make(chan struct{}, pages), release: make(chan struct{}),
	}
	admin := servertest.Start(t, func(o *servertest.Setup) { o.Metrics.MustRegister(s) }).OnAdmin()
	var clients sync.WaitGroup
	for range pages {
		clients.Go(func() {
			got, err := admin.Try(t.Context(), "GET", "/metrics", nil)
			assert.NoError(t, err)
			assert.Contains(t, string(got.Body), "slow 0")
		})
	}
	for range pages {
		<-s.made
		s.release <- struct{}{}
	}
	clients.Wait()
	require.EqualValues(t, 1, s.maximum.Load())
}
