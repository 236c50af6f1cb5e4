package main

import (
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMemoryLimit shows that the process has a limit of memory by itself, which is no more than the machine has.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--data-dir", t.TempDir())
	limit := s.metric(t, "go_gc_gomemlimit_bytes")
	require.Positive(t, limit)
	require.Less(t, limit, float64(math.MaxInt64)/1024)
}

// metric reads one number without labels.
func (s *runningServer) metric(t *testing.T, name string) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", nil)
	require.NoError(t, err)
	request.Close = true // no connection stays open
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
	require.NotNil(t, match, "%s", text)
	value, err := strconv.ParseFloat(string(match[1]), 64)
	require.NoError(t, err)
	return value
}
