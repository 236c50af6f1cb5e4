package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// quick tries again at once, for as long as a test lasts.
var quick = client.RetryPolicy{MinPause: time.Nanosecond, MaxPause: time.Nanosecond, MaxElapsed: time.Hour}

// call is a request that a fake service got.
type call struct {
	method string
	target string // path and query as they were sent
	body   string
	header http.Header
}

// fake is a service that returns answers in order, the last one repeatedly, and records the requests. Unless it has
// streams, it is one of before them.
type fake struct {
	*httptest.Server
	streams bool
	mu      sync.Mutex
	calls   []call
	answers []http.HandlerFunc
}

func newFake(t *testing.T, answers ...http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{answers: answers}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.streams && withoutStream(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	f.mu.Lock()
	f.calls = append(f.calls, call{r.Method, r.URL.RequestURI(), string(body), r.Header})
	answer := f.answers[0]
	if len(f.answers) > 1 {
		f.answers = f.answers[1:]
	}
	f.mu.Unlock()
	answer(w, r)
}

func (f *fake) got() []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// client returns a client of the fake. It is closed with the test.
func (f *fake) client(t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	return newClient(t, f.URL, append([]client.Option{client.WithRetry(quick)}, opts...)...)
}

func newClient(t *testing.T, url string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// withoutStream answers a request for a stream as a service without them does.
func withoutStream(w http.ResponseWriter, r *http.Request) bool {
	is := strings.HasSuffix(r.URL.Path, "/stream")
	if is {
		problem(http.StatusNotFound, fault.SlugNoPath, 0)(w, r)
	}
	return is
}

// answer is a success with a body, which is encoded unless it is text.
func answer(status int, body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", wire.MediaJSON)
		w.WriteHeader(status)
		switch body := body.(type) {
		case nil:
		case string:
			_, _ = io.WriteString(w, body)
		default:
			_ = json.NewEncoder(w).Encode(body)
		}
	}
}

// problem is a failure. A retryAfter of 0 isn't sent.
func problem(status int, slug fault.Slug, retryAfter int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", wire.MediaProblem)
		if retryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(wire.NewProblem(slug, status, "details of "+string(slug)))
	}
}

// lost executes the request and then drops the connection instead of answering.
func lost(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
