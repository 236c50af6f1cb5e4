package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
)

// A server that has become quiet returns to the system what a burst of requests needed.
func TestQuietServerReturnsMemory(t *testing.T) {
	t.Parallel()
	s := startServer(t, "--data-dir", t.TempDir())
	resident := func() int { // not of the metrics, for which a server needs memory
		p, err := procfs.NewProc(s.PID())
		require.NoError(t, err)
		status, err := p.NewStatus()
		require.NoError(t, err)
		return int(status.RssAnon)
	}
	before := resident()
	content := `"` + strings.Repeat("x", 200<<10) + `"`
	for i := range 64 {
		status, body := s.request(t, http.MethodPut, fmt.Sprintf("%s/v1/channels/c/messages/m%d", s.url, i), content)
		require.Equal(t, http.StatusCreated, status, body)
	}
	needed := resident() - before
	require.Greater(t, needed, 1<<20)
	eventually(t, func() bool { return resident() < before+needed/2 })
}
