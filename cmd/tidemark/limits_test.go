package main

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/client"
)

// TestLimitsOfTheProcess checks that the process sets a memory limit, not above the memory of the machine, and that it
// refuses requests while all of its connections are in use, but stays ready.
func TestLimitsOfTheProcess(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--data-dir", t.TempDir(), "--max-connections", "4")
	limit := s.metric(t, "go_gc_gomemlimit_bytes")
	require.Positive(t, limit)
	require.Less(t, limit, float64(math.MaxInt64)/1024)

	_, err := s.Subscribe(t.Context(), "c", "s", client.Latest)
	require.NoError(t, err)
	waiting, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits sync.WaitGroup
	for range 4 {
		waits.Go(func() {
			transport := &http.Transport{} // a connection of its own
			defer transport.CloseIdleConnections()
			for waiting.Err() == nil {
				url := s.url + "/v1/channels/c/subscribers/s/messages?wait=20s"
				request, err := http.NewRequestWithContext(waiting, http.MethodGet, url, http.NoBody)
				if err != nil {
					panic(err)
				}
				if answer, err := transport.RoundTrip(request); err == nil {
					_ = answer.Body.Close() // it waits again
				}
			}
		})
	}
	get := func(path string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
		require.NoError(t, err)
		request.Close = true
		answer, err := http.DefaultClient.Do(request)
		if err != nil { // the connection gave way to that of a poll, before the request was read
			return 0
		}
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	eventually(t, func() bool { return get("/v1/info") == http.StatusServiceUnavailable })
	var ready int
	eventually(t, func() bool {
		ready = get("/readyz")
		return ready != 0
	})
	require.Equal(t, http.StatusOK, ready)

	cancel() // the client tries again until then
	waits.Wait()
	_, err = s.Publish(t.Context(), "c", client.Draft{Content: []byte("1")})
	require.NoError(t, err)
}
