package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// newRouter returns a router whose only route is POST /.
func newRouter(handle Handler) *Router {
	r := New(Options{
		Logger: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Ready:        func(context.Context) error { return nil },
		MaxBodyBytes: 1 << 20, BodyMemory: 1 << 20, ReadTimeout: time.Hour,
	})
	API{Router: r, Fail: Fail}.Add(Route{Method: http.MethodPost, Path: "/", Open: true, Handle: handle})
	return r
}

// deadlines is a response writer that records the deadlines for reading.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

// TestBodyDeadline: a large body has time by its size, and the request the usual time afterwards.
func TestBodyDeadline(t *testing.T) {
	t.Parallel()
	const size = 512 << 10
	r := newRouter(func(c *Call) error {
		body, err := c.Body()
		if err != nil {
			return err
		}
		body.Release()
		return c.NoContent()
	})
	post := func(body io.Reader, length int64) *deadlines {
		d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", body)
		request.ContentLength = length
		r.ServeHTTP(d, request)
		require.Zero(t, r.BodyBytes())
		return d
	}
	begin, text := time.Now(), strings.Repeat("x", size)
	for what, length := range map[string]int64{"a length": size, "no length": -1} {
		d := post(strings.NewReader(text), length)
		require.Equal(t, http.StatusNoContent, d.Code, what)
		last := len(d.set) - 1
		require.True(t, d.set[last].After(begin.Add(59*time.Minute)), "the rest of the request has ReadTimeout")
		first := int64(largeBuffer) // allocations before the body arrives
		if length < 0 {
			first = 2 * smallBuffer
		}
		for i, at := range d.set[:last] {
			inTime := bodyHeadStart + time.Duration(first<<i)*time.Second/bodyRate
			require.WithinRange(t, at, begin.Add(inTime), time.Now().Add(inTime), "%s: %d", what, i)
		}
	}
	d := post(strings.NewReader(text[:100]), 100)
	require.Equal(t, http.StatusNoContent, d.Code)
	require.Empty(t, d.set, "a small body has the time of the request")

	d = post(io.MultiReader(strings.NewReader(text[1:]), iotest.ErrReader(os.ErrDeadlineExceeded)), size)
	require.Equal(t, http.StatusRequestTimeout, d.Code)
	require.Contains(t, d.Body.String(), "problem:invalid-body")
	require.Len(t, d.set, 4, "the rest of the body isn't waited for")
}
