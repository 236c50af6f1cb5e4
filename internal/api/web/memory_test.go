package web

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
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

// TestBodyDeadline: a body has time by its size, and the request the usual time afterwards.
func TestBodyDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testBodyDeadline)
}

func testBodyDeadline(t *testing.T) {
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
		if length < 0 { // it may be a small one
			require.Equal(t, begin.Add(bodyHeadStart), d.set[0])
			d.set = d.set[1:]
		}
		last := len(d.set) - 1
		require.True(t, d.set[last].After(begin.Add(59*time.Minute)), "the rest of the request has ReadTimeout")
		timeFor := func(size int64) time.Duration { return bodyHeadStart + time.Duration(size)*time.Second/bodyRate }
		first := int64(largeBuffer) // allocations before the body arrives
		if length < 0 {
			// twice the size of a buffer, which an earlier request may have used and enlarged
			first = int64((d.set[0].Sub(begin)-bodyHeadStart)*bodyRate+time.Second/2) / int64(time.Second)
			require.GreaterOrEqual(t, first, int64(2*smallBuffer))
		}
		for i, at := range d.set[:last] {
			inTime := timeFor(first << i)
			require.Equal(t, begin.Add(inTime), at, "%s: %d", what, i)
		}
	}
	d := post(strings.NewReader(text[:100]), 100)
	require.Equal(t, http.StatusNoContent, d.Code)
	require.Equal(t, []time.Time{begin.Add(bodyHeadStart), begin.Add(time.Hour)}, d.set, "a small body has a little time")

	d = post(io.MultiReader(strings.NewReader(text[1:]), iotest.ErrReader(os.ErrDeadlineExceeded)), size)
	require.Equal(t, http.StatusRequestTimeout, d.Code)
	require.Contains(t, d.Body.String(), "problem:invalid-body")
	require.Len(t, d.set, 4, "the rest of the body isn't waited for")
}

// TestLargeBodiesTakeTurns: no more large bodies than turns are decoded at the same time. Small ones don't wait, and
// one whose turn doesn't come is refused.
func TestLargeBodiesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var started atomic.Int64
		decoded := make(chan struct{})
		r := newRouter(func(c *Call) error {
			body, err := c.Body()
			if err != nil {
				return err
			}
			defer body.Release()
			if len(body.Bytes) > largeBuffer {
				started.Add(1)
				<-decoded
				c.Decoded()
				<-c.Context().Done() // a handler that waits holds nobody up
			}
			return c.NoContent()
		})
		post := func(ctx context.Context, size int) int {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/",
				strings.NewReader(strings.Repeat("x", size))))
			return w.Code
		}
		ctx, end := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		n := Turns()
		for range 2 * n {
			clients.Go(func() { post(ctx, largeBuffer+1) })
		}
		synctest.Wait()
		require.Equal(t, n, started.Load())
		require.Equal(t, n, r.bodies.waiting.Load())
		require.Equal(t, http.StatusNoContent, post(t.Context(), largeBuffer))
		for range n {
			decoded <- struct{}{}
		}
		synctest.Wait()
		require.Equal(t, 2*n, started.Load())
		require.Equal(t, http.StatusServiceUnavailable, post(t.Context(), largeBuffer+1), "after the time for a turn")
		end()
		close(decoded)
		clients.Wait()
		require.Zero(t, r.bodies.waiting.Load())
		require.True(t, r.bodies.turns.TryAcquire(n), "all turns were returned")
	})
}

// blocked is a response writer whose client doesn't read before the test allows it.
type blocked struct {
	*httptest.ResponseRecorder
	read chan struct{}
}

func (b *blocked) WriteHeader(int) { <-b.read }

func (b *blocked) Write(p []byte) (int, error) {
	<-b.read
	return len(p), nil
}

func (b *blocked) Flush() { <-b.read }

// TestTurnsOfUnreadAnswers: a body that was answered has no turn any more, even if it was not decoded and its client
// doesn't read.
func TestTurnsOfUnreadAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"headers":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"body":     func(w http.ResponseWriter) { _, _ = w.Write([]byte("{}")) },
		"buffered": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRouter(func(c *Call) error {
				if _, err := c.Body(); err != nil {
					return err
				}
				c.SetOutcome(http.StatusBadRequest, nil)
				answer(c.Response())
				return nil
			})
			read := make(chan struct{})
			var clients sync.WaitGroup
			n := Turns()
			for range n {
				clients.Go(func() {
					r.ServeHTTP(&blocked{ResponseRecorder: httptest.NewRecorder(), read: read},
						httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/",
							strings.NewReader(strings.Repeat("x", largeBuffer+1))))
				})
			}
			synctest.Wait()
			require.True(t, r.bodies.turns.TryAcquire(n), name)
			r.bodies.turns.Release(n)
			close(read)
			clients.Wait()
			require.True(t, r.bodies.turns.TryAcquire(n), "each turn is returned once")
		})
	}
}
