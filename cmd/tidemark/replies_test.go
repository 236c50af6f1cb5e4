package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// requestsOnRedis are requests of every kind that needs Redis.
var requestsOnRedis = []struct{ method, path, body string }{
	{http.MethodGet, "/readyz", ""},
	{http.MethodPost, "/v1/channels/x/messages", `{"content":1}`},
	{http.MethodPost, "/v1/channels/x/messages", `[{"content":1},{"content":2}]`},
	{http.MethodPut, "/v1/channels/x/messages/m1", `1`},
	{http.MethodGet, "/v1/channels/x/subscribers/s/messages", ""},
	{http.MethodGet, "/v1/channels/x/subscribers/s/messages?wait=10s", ""},
	{http.MethodPut, "/v1/channels/x/subscribers/t", ""},
	{http.MethodDelete, "/v1/channels/x/subscribers/t", ""},
	{http.MethodGet, "/v1/channels/x", ""},
	{http.MethodPost, "/v1/tickets", `{"queue":"default"}`},
	{http.MethodGet, "/v1/tickets/nobody", ""},
	{http.MethodPut, "/v1/queues/other", `{"match":{"function":"first-come","teams":2,"teamSize":1},"assigner":{"kind":"static","connection":"x:1"}}`},
}

// TestNoReplyEndsTheService walks all errors that Redis answers with through a process of the service: it answers each
// request with a refusal, and is ready again when Redis is.
func TestNoReplyEndsTheService(t *testing.T) {
	t.Parallel()
	const processes = 4
	for i := range processes {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, redistest.Start(t, redistest.Options{}))
			s := startServer(t, "--redis", proxy.Addr(), "--redis-timeout", "200ms")
			require.NoError(t, s.put(t, "/v1/channels/x/subscribers/s", ""))
			for j := i; j < len(redistest.ErrorReplies); j += processes {
				text := redistest.ErrorReplies[j]
				proxy.Fail(func([]string) string { return text })
				s.requireRefusals(t, text)
				proxy.Cut() // so that new connections are refused too
				s.requireRefusals(t, text)
				proxy.Fail(nil)
				require.Eventually(t, func() bool {
					status, _, err := s.send(t, http.MethodGet, "/readyz", "")
					require.NoError(t, err, text)
					return status == http.StatusOK
				}, time.Minute, 20*time.Millisecond, text)
			}
		})
	}
}

// requireRefusals makes all requests at the same time and expects a problem as the answer to each.
func (s *runningServer) requireRefusals(t *testing.T, about string) {
	t.Helper()
	statuses := make([]int, len(requestsOnRedis))
	var g errgroup.Group
	for i, r := range requestsOnRedis {
		g.Go(func() (err error) {
			statuses[i], _, err = s.send(t, r.method, r.path, r.body)
			return err
		})
	}
	require.NoError(t, g.Wait(), about)
	for i, r := range requestsOnRedis {
		require.GreaterOrEqual(t, statuses[i], http.StatusInternalServerError, "%s: %s %s", about, r.method, r.path)
	}
}
