package main

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestConnections stays below the limit on open files.
func TestConnections(t *testing.T) {
	t.Parallel()
	files := fileLimit()
	require.Positive(t, files)
	log := slog.New(slog.DiscardHandler)
	limit := connections(t.Context(), 0, log)
	require.Less(t, limit, files)
	require.Equal(t, limit, connections(t.Context(), files, log))
	require.Equal(t, 1, connections(t.Context(), 1, log))
}
