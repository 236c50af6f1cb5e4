package web

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/fault"
)

// TestGuessesAreForgotten at a rate. Other addresses aren't affected, except those of one IPv6 subnet.
func TestGuessesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuesses()
		add := func(address string, times int) {
			for range times {
				g.add(subnetOf(address))
			}
		}
		limited := func(address string) time.Duration {
			err := g.check(subnetOf(address))
			if err == nil {
				return 0
			}
			var e *fault.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, fault.SlugRateLimited, e.Slug)
			return e.RetryAfter
		}
		add("192.0.2.1:1", guessBurst-1)
		require.Zero(t, limited("192.0.2.1:1"))
		add("192.0.2.1:2", 5)
		retry := limited("192.0.2.1:3")
		require.Equal(t, time.Second/guessRate, retry.Round(time.Millisecond))
		require.NotZero(t, limited("[::ffff:192.0.2.1]:1"))
		require.Zero(t, limited("192.0.2.2:1"))
		time.Sleep(retry + time.Millisecond) //nolint:forbidigo // the time of synctest
		require.Zero(t, limited("192.0.2.1:1"))

		add("[2001:db8::1]:1", guessBurst)
		require.NotZero(t, limited("[2001:db8::ffff:1%eth0]:1"), "the same subnet")
		require.Zero(t, limited("[2001:db8:0:1::1]:1"))
		add("@", guessBurst)
		require.NotZero(t, limited(""))
	})
}

// TestGuessesAreBounded: the addresses that were quiet for longest are forgotten.
func TestGuessesAreBounded(t *testing.T) {
	t.Parallel()
	g := newGuesses()
	for i := range 2 * guessAddresses {
		g.add(subnetOf(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255)))
	}
	require.Equal(t, guessAddresses, g.left.Len())
}

// TestAdminRoutes are served by the administrator's handler only, whose connections can have a principal of their own.
func TestAdminRoutes(t *testing.T) {
	t.Parallel()
	guard, err := access.New(access.Options{})
	require.NoError(t, err)
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Guard: guard})
	API{Router: r, Fail: Fail}.Add(Route{
		Method: http.MethodPut, Path: "/thing", Admin: true, Action: access.Admin, Handle: func(c *Call) error { return c.NoContent() },
	})
	status := func(h http.Handler, p *access.Principal) int {
		answer, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/thing", nil)
		h.ServeHTTP(answer, request.WithContext(access.With(request.Context(), p)))
		return answer.Code
	}
	require.Equal(t, http.StatusNotFound, status(r, access.Local()))
	require.Equal(t, http.StatusNoContent, status(r.Admin(), access.Local()))
	require.Equal(t, http.StatusUnauthorized, status(r.Admin(), nil))
}
