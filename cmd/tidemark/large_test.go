package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// send makes a request and returns its status and the length of its answer, which is thrown away.
func (s *runningServer) send(t *testing.T, method, path, body string) (status int, length int64, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	length, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, length, err
}

func (s *runningServer) put(t *testing.T, path, body string) error {
	t.Helper()
	status, _, err := s.send(t, http.MethodPut, path, body)
	if err == nil && status >= http.StatusBadRequest {
		err = fmt.Errorf("PUT %s: %d", path, status)
	}
	return err
}

// TestLargeFetches lets 300 subscribers fetch 4 MiB each at the same time. All get it, on the first try, and so do
// publishers and readers of small messages.
func TestLargeFetches(t *testing.T) {
	t.Parallel()
	const subscribers, channels, messages, size = 300, 3, 64, 64 << 10
	s := startServer(t, "--redis", redistest.Start(t, redistest.Options{}).URL(), "--matchmaking", "off")
	for i := range subscribers {
		require.NoError(t, s.put(t, fmt.Sprintf("/v1/channels/large%d/subscribers/s%d", i%channels, i), ""))
	}
	content := `"` + strings.Repeat("x", size-2) + `"`
	for i := range messages * channels {
		require.NoError(t, s.put(t, fmt.Sprintf("/v1/channels/large%d/messages/m%d", i%channels, i), content))
	}
	require.NoError(t, s.put(t, "/v1/channels/small/subscribers/s", ""))
	var fetches errgroup.Group
	for i := range subscribers {
		fetches.Go(func() error {
			status, n, err := s.send(t, http.MethodGet, fmt.Sprintf("/v1/channels/large%d/subscribers/s%d/messages", i%channels, i), "")
			if err == nil && (status != http.StatusOK || n < (messages-1)*size) {
				err = fmt.Errorf("fetch %d: %d with %d bytes", i, status, n)
			}
			return err
		})
	}
	ended := make(chan error, 1)
	go func() { ended <- fetches.Wait() }()
	for i := 0; ; i++ {
		select {
		case err := <-ended:
			require.NoError(t, err)
			return
		default:
			require.NoError(t, s.put(t, fmt.Sprintf("/v1/channels/small/messages/m%d", i), "1"))
			status, _, err := s.send(t, http.MethodGet, "/v1/channels/small/subscribers/s/messages?max=1", "")
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status)
		}
	}
}
