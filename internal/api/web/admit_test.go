package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/access"
)

// TestAdminRoutes: only the administrator's handler serves them; its connections can have a principal of their own.
func TestAdminRoutes(t *testing.T) {
	t.Parallel()
	guard, err := access.New(access.Options{})
	require.NoError(t, err)
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Guard: guard})
	API{Router: r, Fail: Fail}.Add(Route{
		Method: http.MethodPut, Path: "/thing", Admin: true, Action: access.Admin,
		Handle: func(c *Call) error { return c.NoContent() },
	})
	body := func(method string) string {
		answer := httptest.NewRecorder()
		r.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, "http://localhost/thing", nil))
		return answer.Body.String()
	}
	require.Contains(t, body(http.MethodPut), "admin-listen")
	require.Contains(t, body(http.MethodDelete), "admin-listen", "the path is there, too")
	status := func(h http.Handler, p *access.Principal) int {
		answer, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPut,
			"http://localhost/thing", nil)
		h.ServeHTTP(answer, request.WithContext(access.With(request.Context(), p)))
		return answer.Code
	}
	require.Equal(t, http.StatusNotFound, status(r, access.Local()))
	require.Equal(t, http.StatusNoContent, status(r.Admin(), access.Local()))
	require.Equal(t, http.StatusUnauthorized, status(r.Admin(), nil))
}
