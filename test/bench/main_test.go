package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPageHasAllParts checks that docs/benchmarks.md has a section for each part, and says what it was measured on.
func TestPageHasAllParts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/benchmarks.md")
	require.NoError(t, err)
	page := string(text)
	for _, part := range parts {
		require.Contains(t, page, "\n## "+part.heading+"\n", "of %s: run make bench", part.name)
	}
	require.Regexp(t, "at commit [0-9a-f]{7,40}(-dirty)? on 20[0-9-]{8}, on ", page)
}
