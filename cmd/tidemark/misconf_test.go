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
