package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/unsent"
)

// reader is a response writer whose client reads a number of bytes. It records the deadlines for writing.
type reader struct {
	*httptest.ResponseRecorder
	reads int
	set   []time.Time
}

func (r *reader) SetWriteDeadline(at time.Time) error {
	r.set = append(r.set, at)
	return nil
}

func (r *reader) Write(p []byte) (int, error) {
	n, _ := r.ResponseRecorder.Write(p[:min(len(p), r.reads-r.Body.Len())])
	if n < len(p) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

func (r *reader) post(t *testing.T, to *Router) {
	t.Helper()
	to.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/read", nil))
}

// newReading returns a router with a route that reads.
func newReading(handle Handler) *Router {
	r := newRouter(handle)
	API{Router: r, Fail: Fail}.Add(Route{Method: http.MethodPost, Path: "/read", Open: true, Large: true, Handle: handle})
	return r
}

// TestAnswerDeadline: a large answer has more time with each piece that is read, and a small one that of the request.
func TestAnswerDeadline(t *testing.T) {
	t.Parallel()
	const size = 4 * pieceBytes
	answer := strings.Repeat("x", size-1)
	r := newReading(func(c *Call) error {
		return c.Append(http.StatusOK, len(answer), func(b []byte) []byte { return append(b, answer...) })
	})
	began := time.Now()
	d := &reader{ResponseRecorder: httptest.NewRecorder(), reads: 2 * size}
	d.post(t, r)
	require.Equal(t, size, d.Body.Len())
	require.Len(t, d.set, 5)
	for i, at := range d.set[:4] {
		inTime := unsent.HeadStart + time.Duration(i+1)*pieceBytes*time.Second/unsent.Rate
		require.WithinRange(t, at, began.Add(inTime), time.Now().Add(inTime))
	}
	require.WithinRange(t, d.set[4], began.Add(AnswerTimeout), time.Now().Add(AnswerTimeout))
	require.Zero(t, r.Answers().Slow())

	d = &reader{ResponseRecorder: httptest.NewRecorder(), reads: pieceBytes + 1}
	d.post(t, r)
	require.Len(t, d.set, 2, "it isn't written any further")
	require.EqualValues(t, 1, r.Answers().Slow())
	require.Zero(t, r.Answers().Bytes())

	answer = "small"
	d = &reader{ResponseRecorder: httptest.NewRecorder(), reads: size}
	d.post(t, r)
	require.Empty(t, d.set)
}

// TestAnswerOfTheHandler: a handler that writes the answer itself may set the deadlines. A part for which there is no
// memory breaks the answer off, so that the client doesn't take it for all of it.
func TestAnswerOfTheHandler(t *testing.T) {
	t.Parallel()
	large := make([]byte, unsent.Small+1)
	at := time.Now().Add(time.Hour)
	var last *Call
	r := newReading(func(c *Call) error {
		last = c
		if err := http.NewResponseController(c.Response()).SetWriteDeadline(at); err != nil {
			return err
		}
		_, _ = c.Response().Write(large)
		c.SetOutcome(http.StatusOK, nil)
		return nil
	})
	d := &reader{ResponseRecorder: httptest.NewRecorder(), reads: 1 << 20}
	d.post(t, r)
	require.Equal(t, []time.Time{at}, d.set)
	require.Equal(t, len(large), d.Body.Len())
	require.Equal(t, http.StatusOK, last.outcome())
	require.Zero(t, r.Answers().Bytes())

	others := r.Answers().Part(func() string { return "another" })
	require.NoError(t, others.Grow(DefaultAnswerMemory))
	d = &reader{ResponseRecorder: httptest.NewRecorder(), reads: 1 << 20}
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { d.post(t, r) })
	require.Zero(t, d.Body.Len())
	require.Equal(t, http.StatusServiceUnavailable, last.outcome(), "in metrics and log")
	require.ErrorContains(t, last.err, "too many large answers")
}

// TestAnswersThatAreNotRefused: problems of any size, and what administrators read.
func TestAnswersThatAreNotRefused(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", unsent.Small)
	r := newReading(func(*Call) error {
		return &fault.Error{Kind: fault.Conflict, Slug: fault.SlugNoPath, Detail: large}
	})
	API{Router: r, Fail: Fail}.AddGet(Route{Path: "/all", Open: true, Admin: true, Handle: func(c *Call) error {
		return c.Value(http.StatusOK, large)
	}})
	others := r.Answers().Part(func() string { return "another" })
	require.NoError(t, others.Grow(DefaultAnswerMemory))
	d := &reader{ResponseRecorder: httptest.NewRecorder(), reads: 1 << 20}
	d.post(t, r)
	require.Equal(t, http.StatusConflict, d.Code)
	require.Contains(t, d.Body.String(), large)

	d = &reader{ResponseRecorder: httptest.NewRecorder(), reads: 1 << 20}
	r.Admin().ServeHTTP(d, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/all", nil))
	require.Equal(t, http.StatusOK, d.Code)
	require.Contains(t, d.Body.String(), large)
	require.Zero(t, r.Answers().Refused())
}

// TestRefusedHeads: a HEAD, whose answer is made as that of a GET, is refused as a GET is.
func TestRefusedHeads(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", unsent.Small+1)
	r := newRouter(func(c *Call) error { return c.NoContent() })
	API{Router: r, Fail: Fail}.AddGet(Route{Path: "/read", Open: true, Handle: func(c *Call) error {
		return c.Value(http.StatusOK, large)
	}})
	others := r.Answers().Part(func() string { return "another" })
	require.NoError(t, others.Grow(DefaultAnswerMemory))
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "http://localhost/read", nil))
		require.Equal(t, http.StatusServiceUnavailable, w.Code, method)
	}
}

// TestAnswersOfChanges: a call that changes something isn't refused when it has done so. With a large body it is refused
// before.
func TestAnswersOfChanges(t *testing.T) {
	t.Parallel()
	large, changed := strings.Repeat("x", unsent.Small+1), 0
	r := newRouter(func(c *Call) error {
		if _, err := c.Body(); err != nil {
			return err
		}
		changed++
		return c.Value(http.StatusOK, large)
	})
	post := func(body string) int {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/",
			strings.NewReader(body)))
		return w.Code
	}
	others := r.Answers().Part(func() string { return "another" })
	require.NoError(t, others.Grow(DefaultAnswerMemory))
	require.Equal(t, http.StatusOK, post(large), "others have used all of the memory")
	own := r.Answers().Granted(func() string { return "address:192.0.2.1/32" }) // httptest's
	require.NoError(t, own.Grow(DefaultAnswerMemory/4))
	require.Equal(t, http.StatusOK, post("small"))
	require.Equal(t, http.StatusTooManyRequests, post(large))
	require.Equal(t, 2, changed)
}

// TestUnreadConnections: answers that are not read over HTTP/1.1 are counted until their connections end.
func TestUnreadConnections(t *testing.T) {
	t.Parallel()
	const size = 8 << 20 // more than the buffers of the operating system
	r := newReading(func(c *Call) error {
		return c.Append(http.StatusOK, size, func(b []byte) []byte { return append(b, make([]byte, size)...) })
	})
	server := httptest.NewServer(r)
	defer server.Close()
	post := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		require.NoError(t, err)
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err = io.WriteString(conn, "POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
		require.NoError(t, err)
		return conn
	}
	first := post()
	require.Eventually(t, func() bool { return r.Answers().Bytes() > size }, time.Minute, time.Millisecond)
	for range 2 {
		conn := post()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusTooManyRequests, answer.StatusCode)
		require.Equal(t, "1", answer.Header.Get("Retry-After"))
		require.NoError(t, answer.Body.Close())
		require.NoError(t, conn.Close())
	}
	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return r.Answers().Bytes() == 0 }, time.Minute, time.Millisecond)
}
