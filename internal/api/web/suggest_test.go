package web

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// TestNoPath: the answer to a path with a typo names the path of a route that the listener has.
func TestNoPath(t *testing.T) {
	t.Parallel()
	r := New(Options{Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	api := API{Router: r, Fail: Fail}
	for _, path := range []string{"/livez", "/v1/channels/:channel/messages", "/v1/channels/:channel"} {
		api.AddGet(Route{Path: path, Open: true, Handle: func(c *Call) error { return c.NoContent() }})
	}
	api.Add(Route{Method: http.MethodPost, Path: "/v1/reload", Admin: true, Open: true,
		Handle: func(c *Call) error { return c.NoContent() }})
	detail := func(h http.Handler, path string) string {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil))
		require.Equal(t, http.StatusNotFound, answer.Code, path)
		var problem struct{ Detail string }
		require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &problem))
		return problem.Detail
	}
	const plain = "the path does not exist"
	messages := plain + "; did you mean /v1/channels/{channel}/messages?"
	for path, want := range map[string]string{
		"/v1/chanels/a/message": messages, "/channels/a/messages": messages, "/v1/channel/a%20b/messages": messages,
		"/v1/channel/a": plain + "; did you mean /v1/channels/{channel}?", "/livz": plain + "; did you mean /livez?",
		"/": plain, "/v1/channel": plain, "/v2/channels/a": plain, "/v1/relod": plain,
		"/v1/chan/a/mess": plain, "/v1/channel/" + strings.Repeat("a", maxSuggestedBytes): plain,
	} {
		require.Equal(t, want, detail(r, path), path)
	}
	require.Equal(t, plain+"; did you mean /v1/reload?", detail(r.Admin(), "/v1/relod"))
}
