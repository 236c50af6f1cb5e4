package main

import (
	"math"
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
	text := s.metricsText(t)
	match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	require.NotNil(t, match, "%s", text)
	value, err := strconv.ParseFloat(match[1], 64)
	require.NoError(t, err)
	return value
}
