package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that has become quiet returns to the system what a burst of requests needed.
func TestQuietServerReturnsMemory(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--data-dir", t.TempDir())
	kept := func() float64 { // of the heap, unused
		return s.metric(t, "go_memstats_heap_idle_bytes") - s.metric(t, "go_memstats_heap_released_bytes")
	}
	content := `"` + strings.Repeat("x", 200<<10) + `"`
	for i := range 64 {
		status, body := s.request(t, http.MethodPut, fmt.Sprintf("%s/v1/channels/c/messages/m%d", s.url, i), content)
		require.Equal(t, http.StatusCreated, status, body)
	}
	require.Greater(t, s.metric(t, "go_memstats_heap_sys_bytes"), 4.0*(1<<20))
	released := s.metric(t, "go_memstats_heap_released_bytes")
	eventually(t, func() bool { return kept() < 1<<20 && s.metric(t, "go_memstats_heap_released_bytes") > released })
}
