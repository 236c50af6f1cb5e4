package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
)

// get returns the status and the body of a GET.
func (s *runningServer) get(t *testing.T, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(body)
}

// TestFailedSnapshot lets Redis refuse writes and PING, as it does where it can't save a snapshot. The service says so,
// goes on, and is ready when Redis is.
func TestFailedSnapshot(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{Args: []string{"--enable-protected-configs", "yes"}})
	s := startServer(t, "--redis", n.URL(), "--redis-timeout", "1s")
	status, _ := s.get(t, "/readyz")
	require.Equal(t, http.StatusOK, status)

	dir := t.TempDir()
	dump := filepath.Join(dir, "dump.rdb")
	require.NoError(t, os.Mkdir(dump, 0o700))
	require.NoError(t, n.Do(t, "CONFIG", "SET", "dir", dir, "dbfilename", "dump.rdb", "save", "3600 1").Error())
	snapshot := func(want string) {
		require.NoError(t, n.Do(t, "BGSAVE").Error())
		require.Eventually(t, func() bool {
			info, err := n.Do(t, "INFO", "persistence").ToString()
			require.NoError(t, err)
			return strings.Contains(info, "rdb_bgsave_in_progress:0") && strings.Contains(info, "rdb_last_bgsave_status:"+want)
		}, time.Minute, 10*time.Millisecond)
	}
	snapshot("err")
	for range 5 {
		status, body := s.get(t, "/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status, body)
		require.Contains(t, body, "MISCONF")
	}
	status, _ = s.get(t, "/livez")
	require.Equal(t, http.StatusOK, status)

	require.NoError(t, os.Remove(dump))
	snapshot("ok")
	status, body := s.get(t, "/readyz")
	require.Equal(t, http.StatusOK, status, body)
	_, _, logs := s.output.find(regexp.MustCompile("panic"))
	require.NotContains(t, logs, "panic")
}

// TestReadinessNeedsWrites lets the Redis of the channels, and that of the tickets, refuse writes in every way. A check
// names the refusal, and what can be done without writing goes on.
func TestReadinessNeedsWrites(t *testing.T) {
	t.Parallel()
	nodes := []*redistest.Node{redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})}
	s := startServer(t, "--redis", nodes[0].URL(), "--tickets-redis", nodes[1].URL(), "--redis-timeout", "1s")
	require.NoError(t, s.put(t, "/v1/channels/x/subscribers/s", ""))
	require.NoError(t, s.put(t, "/v1/channels/x/messages/m1", "1"))
	for _, n := range nodes {
		for _, c := range []struct{ refusal, refuse, accept string }{
			{"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
			{"OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
			{"READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		} {
			require.NoError(t, n.Do(t, strings.Fields(c.refuse)...).Error())
			status, body := s.get(t, "/readyz")
			require.Equal(t, http.StatusServiceUnavailable, status, body)
			require.Contains(t, body, c.refusal)
			status, body = s.get(t, "/v1/channels/x/subscribers/s/messages")
			require.Equal(t, http.StatusOK, status, body)
			require.Contains(t, body, "m1")
			require.NoError(t, n.Do(t, strings.Fields(c.accept)...).Error())
			require.Eventually(t, func() bool {
				status, _ := s.get(t, "/readyz")
				return status == http.StatusOK
			}, time.Minute, 10*time.Millisecond)
		}
	}
}
