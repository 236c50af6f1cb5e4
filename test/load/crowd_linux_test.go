package load_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/load"
)

// A crowd counts the messages of each connection, also one that comes in two pieces.
func TestCrowd(t *testing.T) {
	t.Parallel()
	pieces := make([]chan string, 30)
	for i := range pieces {
		pieces[i] = make(chan string)
	}
	var mu sync.Mutex
	opened := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		mine := pieces[opened]
		opened++
		mu.Unlock()
		conn, _, err := http.NewResponseController(w).Hijack()
		assert.NoError(t, err)
		defer conn.Close() //nolint:errcheck // of a test
		_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		assert.NoError(t, err)
		for piece := range mine {
			_, err = io.WriteString(conn, piece)
			assert.NoError(t, err)
		}
	}))
	defer server.Close()
	crowd, err := load.NewCrowd(strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	defer crowd.Close()
	steps := func(int) []load.Step { return load.EventsSteps("/") }
	require.NoError(t, crowd.Open(t.Context(), 10, steps))
	require.NoError(t, crowd.Open(t.Context(), 20, steps))
	require.Equal(t, 30, crowd.Len())
	send := func(texts ...string) func() error {
		return func() error {
			for _, text := range texts {
				for _, p := range pieces {
					p <- text
				}
			}
			return nil
		}
	}
	took, err := crowd.Receive(t.Context(), 1, send("no message ", load.Marker))
	require.NoError(t, err)
	require.Len(t, took, 30)
	_, err = crowd.Receive(t.Context(), 3, send(load.Marker+load.Marker+load.Marker[:5], load.Marker[5:]+"\n"))
	require.NoError(t, err)
	require.Equal(t, 30*(len("no message ")+4*len(load.Marker)+1), crowd.Bytes)
	_, err = crowd.Receive(t.Context(), 1, func() error {
		for _, p := range pieces {
			close(p)
		}
		return nil
	})
	require.ErrorContains(t, err, "no further answer")
}

// A connection that is refused is an error that says how it was answered.
func TestCrowdIsRefused(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Config.SetKeepAlivesEnabled(false)
	defer server.Close()
	crowd, err := load.NewCrowd(strings.TrimPrefix(server.URL, "http://"))
	require.NoError(t, err)
	defer crowd.Close()
	err = crowd.Open(t.Context(), 3, func(int) []load.Step { return load.SubscribeSteps("c", "s") })
	require.ErrorContains(t, err, "404 Not Found")
}
