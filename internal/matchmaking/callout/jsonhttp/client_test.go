package jsonhttp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const generous = time.Minute

// serve starts a server that ends with the test.
func serve(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server.URL
}

func newClient(t *testing.T, timeout time.Duration, limit int64) *Client {
	t.Helper()
	c := New(nil, timeout, limit)
	t.Cleanup(c.CloseIdle)
	return c
}

func TestPostSendsJSON(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != ContentType ||
			r.Header.Get("X-More") != "1" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(append([]byte("got "), body...))
	})
	answer, err := newClient(t, generous, 64).Post(t.Context(), url, http.Header{"X-More": {"1"}}, []byte(`{"a":1}`))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, answer.Status)
	require.Equal(t, `got {"a":1}`, string(answer.Body))
}

func TestPostLimitsTheResponse(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := 8
		if r.URL.Path == "/large" {
			n = 9
		}
		_, _ = io.WriteString(w, strings.Repeat("x", n))
	})
	c := newClient(t, generous, 8)
	_, err := c.Post(t.Context(), url, nil, nil)
	require.NoError(t, err)
	_, err = c.Post(t.Context(), url+"/large", nil, nil)
	require.ErrorIs(t, err, ErrTooLarge)
	require.False(t, Retryable(err))
}

func TestPostFollowsNoRedirects(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			followed.Store(true)
			return
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	_, err := newClient(t, generous, 8).Post(t.Context(), url, nil, []byte("{}"))
	require.ErrorContains(t, err, "status 307 Temporary Redirect, redirects are not followed")
	require.False(t, Retryable(err))
	require.False(t, followed.Load())
}

func TestPostEndsWithItsTimeoutAndWithTheContext(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/tell" {
			close(called)
		}
		<-r.Context().Done()
	})

	_, err := newClient(t, time.Millisecond, 8).Post(t.Context(), url, nil, []byte("{}"))
	require.ErrorIs(t, err, ErrTimeout)
	require.True(t, Retryable(err))

	ctx, cancel := context.WithCancelCause(t.Context())
	errLeft := errors.New("the director has left")
	go func() {
		<-called
		cancel(errLeft)
	}()
	_, err = newClient(t, generous, 8).Post(ctx, url+"/tell", nil, []byte("{}"))
	require.ErrorIs(t, err, errLeft)
}

func TestConnectionsAreReused(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuse" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, strings.Repeat("x", 4<<10))
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	c := newClient(t, generous, 8)
	for range 3 {
		_, err := c.Post(t.Context(), server.URL+"/refuse", nil, nil)
		require.Error(t, err)
		_, err = c.Post(t.Context(), server.URL+"/large", nil, nil)
		require.ErrorIs(t, err, ErrTooLarge)
	}
	require.EqualValues(t, 1, connections.Load())
}

func TestStatusError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status  int
		body    string
		passing bool
		text    string
	}{
		"408": {status: 408, passing: true, text: "status 408 Request Timeout"},
		"425": {status: 425, passing: true, text: "status 425 Too Early"},
		"429": {status: 429, body: " no server\n", passing: true, text: `status 429 Too Many Requests: "no server"`},
		"500": {status: 500, passing: true, text: "status 500 Internal Server Error"},
		"503": {status: 503, passing: true, text: "status 503 Service Unavailable"},
		"400": {status: 400, body: "bad\x1b[31m", text: `status 400 Bad Request: "bad\x1b[31m"`},
		"404": {status: 404, text: "status 404 Not Found"},
		"long": {status: 422, body: strings.Repeat("é", 300) + "a", text: `status 422 Unprocessable Entity: "` +
			strings.Repeat("é", 256) + `"`},
		"odd": {status: 422, body: "a" + strings.Repeat("é", 300), text: `status 422 Unprocessable Entity: "a` +
			strings.Repeat("é", 255) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := newClient(t, generous, 8).Post(t.Context(), url, nil, nil)
			require.EqualError(t, err, c.text)
			require.Equal(t, c.passing, Retryable(err))
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		"-7":                            0,
		"soon":                          0,
		"99999999999999999999":          0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second,
		"Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		require.Equal(t, want, retryAfter(text, now), text)
	}
}

func TestNobodyThereIsRetryable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	_, err := newClient(t, generous, 8).Post(t.Context(), server.URL, nil, nil)
	require.Error(t, err)
	require.True(t, Retryable(err))
}

// TestErrorsHaveNoTokens checks that errors of every stage, which are logged, contain no tokens.
func TestErrorsHaveNoTokens(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	for _, address := range []string{server.URL, "http://\x7f", "http://127.0.0.1:1:1", "unknown://a"} {
		_, err := newClient(t, generous, 8).Post(t.Context(), address+"/?token=hush", nil, nil)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hush")
	}
	require.NotContains(t, (*Targets)(nil).Check("http:///?token=hush").Error(), "hush")
}

func TestCheckWithoutRestriction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:9000/allocate": "",
		"https://games.example":          "",
		"http://[::1]:80/":               "",
		"":                               "missing URL",
		"127.0.0.1:9000":                 "invalid URL",
		"games.example/allocate":         `"games.example/allocate" is not an http:// or https:// URL`,
		"ftp://u:secret@games.example":   `"ftp://u:xxxxx@games.example" is not an http:// or https:// URL`,
		"file:///etc/passwd":             `"file:///etc/passwd" is not an http:// or https:// URL`,
		"http://:9000/":                  `"http://:9000/" has no host`,
		"http://games.example/#here":     `"http://games.example/#here" has a fragment`,
	} {
		if err := (*Targets)(nil).Check(text); want == "" {
			require.NoError(t, err, text)
		} else {
			require.EqualError(t, err, want, text)
		}
	}
}

func TestEncodeEscapesNothing(t *testing.T) {
	t.Parallel()
	text, err := Encode(map[string]string{"a": "<b> & c"})
	require.NoError(t, err)
	require.Equal(t, `{"a":"<b> & c"}`, string(text))
}
