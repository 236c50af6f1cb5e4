package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// delivery is the part of a fetch's answer that the tests here look at.
type delivery struct {
	Messages      []struct{ Clock int64 }
	ReceiptHandle string
}

// send makes a request and decodes its answer, of which the contents of messages are thrown away.
func (s *runningServer) send(t *testing.T, method, path, body string) (status int, got delivery, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, got, err
	}
	request.Close = true // a connection that was dialed and isn't used for 10 s is closed by the server
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, got, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode == http.StatusOK {
		err = json.NewDecoder(response.Body).Decode(&got)
	}
	return response.StatusCode, got, err
}

// readAll fetches and acknowledges until a subscriber has so many messages, in order. Each fetch is answered.
func (s *runningServer) readAll(t *testing.T, subscriber string, messages int64) error {
	t.Helper()
	receipt, last := "", int64(0)
	for last < messages {
		status, got, err := s.send(t, http.MethodPost, subscriber+"/next", fmt.Sprintf(`{"receiptHandle":%q}`, receipt))
		if err != nil || status != http.StatusOK || len(got.Messages) == 0 {
			return fmt.Errorf("%s after %d: %d, %w", subscriber, last, status, err)
		}
		for _, m := range got.Messages {
			if m.Clock != last+1 {
				return fmt.Errorf("%s after %d: got %d", subscriber, last, m.Clock)
			}
			last = m.Clock
		}
		receipt = got.ReceiptHandle
	}
	return nil
}

func (s *runningServer) put(t *testing.T, path, body string) error {
	t.Helper()
	status, _, err := s.send(t, http.MethodPut, path, body)
	if err == nil && status >= http.StatusBadRequest {
		err = fmt.Errorf("PUT %s: %d", path, status)
	}
	return err
}

// TestLargeFetches lets 300 subscribers fetch 1 MiB each at the same time. No fetch is refused, and all get everything. So
// do publishers and readers of small messages.
func TestLargeFetches(t *testing.T) {
	t.Parallel()
	const subscribers, channels, messages, size = 300, 3, 16, 64 << 10
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
			return s.readAll(t, fmt.Sprintf("/v1/channels/large%d/subscribers/s%d", i%channels, i), messages)
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
