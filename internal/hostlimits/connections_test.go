package hostlimits

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
	most := Connections(t.Context(), 0, log)
	require.Less(t, most, files)
	require.Equal(t, most, Connections(t.Context(), files, log))
	require.Equal(t, 1, Connections(t.Context(), 1, log))
}
