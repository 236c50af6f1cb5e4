package report_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/report"
)

func TestWritePart(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- begin -->", "<!-- end -->"
	path := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(path, []byte("before\n"+begin+"\nold\n"+end+"\nafter\n"), 0o600))
	require.NoError(t, report.WritePart(path, begin, end, "new\n"))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n"+begin+"\nnew\n"+end+"\nafter\n", string(text))
	require.NoError(t, os.WriteFile(path, []byte("no marks"), 0o600))
	require.Error(t, report.WritePart(path, begin, end, "new"))
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	require.Zero(t, report.Quantile(nil, 0.5))
	times := []time.Duration{3, 1, 2}
	for share, want := range map[float64]time.Duration{0: 1, 0.5: 2, 0.99: 3, 1: 3} {
		require.Equal(t, want, report.Quantile(times, share))
	}
	require.Equal(t, []time.Duration{3, 1, 2}, times)
}
