package report_test

import (
	"os"
	"path/filepath"
	"testing"

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
