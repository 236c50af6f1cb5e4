package server_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server"
)

// TestAdminListener: it serves the whole API, and what nothing else serves.
func TestAdminListener(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues())
	admin := h.onAdmin()
	admin.publish("c", "a", "1")
	require.Equal(t, 200, admin.do("GET", "/v1/channels/c", "").status)
	only := 0
	for _, r := range server.Routes(h.server) {
		if r.Admin {
			method, path := callOf(r)
			h.do(method, path, "").unrouted()
			only++
		}
	}
	require.Positive(t, only)
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/goroutine",
		"/debug/pprof/heap?debug=1"} {
		require.Equal(t, 200, admin.do("GET", path, "").status, path)
		require.Equal(t, 200, admin.do("HEAD", path, "").status, path)
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof", "/debug/pprof/heap/x",
		"/debug/pprof/%2e%2e"} {
		admin.do("GET", path, "").problem(404, fault.SlugNoPath)
	}
}

// unrouted checks that an answer is the one to a path that doesn't exist, or that has other methods.
func (a answer) unrouted() {
	a.t.Helper()
	require.Contains(a.t, []int{http.StatusNotFound, http.StatusMethodNotAllowed}, a.status)
}

// TestRecordings: profiles and traces have a bounded length, are recorded for one client at a time, and end with the
// service.
func TestRecordings(t *testing.T) {
	t.Parallel()
	h := start(t)
	admin := h.onAdmin()
	for _, query := range []string{"profile?seconds=61", "trace?seconds=11", "trace?seconds=0", "profile?seconds=-1",
		"trace?seconds=NaN", "trace?seconds=x"} {
		admin.do("GET", "/debug/pprof/"+query, "").problem(400, fault.SlugInvalidQuery)
	}
	require.NotEmpty(t, admin.do("GET", "/debug/pprof/trace?seconds=0.001", "").body)
	recorded := make(chan answer, 1)
	go func() {
		for {
			got, err := admin.try(t.Context(), "GET", "/debug/pprof/trace?seconds=10", nil)
			if err != nil || got.status != http.StatusServiceUnavailable { // while the one below is recorded
				recorded <- got
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		return admin.do("GET", "/debug/pprof/trace?seconds=0.001", "").status == http.StatusServiceUnavailable
	}, time.Minute, time.Millisecond)
	admin.do("GET", "/debug/pprof/profile?seconds=1", "").problem(503, fault.SlugOverloaded)
	h.stop()
	require.Equal(t, 200, (<-recorded).status)
}

// TestAdminListenerIsForNoPages: no page of another origin may send it anything, whatever CORS allows elsewhere.
func TestAdminListenerIsForNoPages(t *testing.T) {
	t.Parallel()
	h := start(t, withQueues(), func(s *setup) { s.CORS = server.CORS{AllowOrigins: []string{"*"}} })
	admin := h.onAdmin()
	page := []header{{"Origin", evil}, {"Sec-Fetch-Site", "cross-site"}}
	for _, call := range []string{"GET /metrics", "GET /debug/pprof/trace", "GET /v1/info", "POST /v1/tickets {}",
		"PUT /v1/queues/q {}"} {
		method, path, body := cut(call)
		for _, headers := range [][]header{page, page[:1], page[1:], {{"Sec-Fetch-Site", "same-site"}}} {
			admin.do(method, path, body, headers...).problem(403, fault.SlugCrossOrigin)
		}
	}
	require.Equal(t, 421,
		admin.raw("GET /metrics HTTP/1.1\r\nHost: rebound.example.com\r\nConnection: close\r\n\r\n").status)
	preflight := admin.do("OPTIONS", "/v1/tickets", "", header{"Origin", evil},
		header{"Access-Control-Request-Method", "POST"})
	require.Empty(t, preflight.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, 200, admin.do("GET", "/metrics", "", header{"Sec-Fetch-Site", "none"}).status, "an address bar")
	require.Equal(t, 201, h.do("POST", "/v1/tickets", "{}", page...).status, "as configured")
}

// TestAdminListenerDrainsLast: it can be asked about requests that are still in progress.
func TestAdminListenerDrainsLast(t *testing.T) {
	t.Parallel()
	h := start(t)
	entered, release := make(chan struct{}), make(chan struct{})
	h.store.intercept(func(context.Context, string) error {
		close(entered)
		<-release
		return nil
	})
	published := make(chan answer, 1)
	go func() {
		got, _ := h.try(t.Context(), "PUT", "/v1/channels/c/messages/a", strings.NewReader("1"))
		published <- got
	}()
	<-entered
	h.stop()
	require.Eventually(t, func() bool {
		_, err := h.try(t.Context(), "GET", "/livez", nil)
		return err != nil
	}, time.Minute, time.Millisecond)
	require.Equal(t, 200, h.onAdmin().do("GET", "/metrics", "").status)
	close(release)
	require.Equal(t, 201, (<-published).status)
	require.NoError(t, <-h.stopped)
	_, err := h.onAdmin().try(t.Context(), "GET", "/metrics", nil)
	require.ErrorContains(t, err, "refused")
}

// TestAdminSocket: the listener may be a Unix socket, on which everybody is the administrator.
func TestAdminSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	require.NoError(t, err)
	var nobody people
	h := start(t, func(s *setup) { s.admin = l }, closed(t, &nobody))
	h.do("GET", "/v1/info", "").problem(401, fault.SlugNoCredential)
	h.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	for _, path := range []string{"/metrics", "/v1/info", "/debug/pprof/"} {
		require.Equal(t, 200, h.do("GET", path, "").status)
	}
	require.Equal(t, 201, h.do("PUT", "/v1/channels/c/messages/a", "1").status)
}
