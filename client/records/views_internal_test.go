package records

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImportOfPython: an import has numbers as Python writes them.
func TestImportOfPython(t *testing.T) {
	t.Parallel()
	parts, err := partsOf(map[string]string{"_timestamp": "1640995200.5", "_total": "2", "1": "7.0", "2": "8"})
	require.NoError(t, err)
	require.Len(t, parts, 1)
	require.Equal(t, int64(1640995200), parts[0].Timestamp)
	require.Equal(t, map[string]int64{"1": 7, "2": 8}, parts[0].Views)
	for field, wrong := range map[string]string{"_timestamp": "now", "_total": "3", "1": "7.5"} {
		fields := map[string]string{"_timestamp": "1640995200", "_total": "1", "1": "7"}
		fields[field] = wrong
		_, err := partsOf(fields)
		require.ErrorIs(t, err, ErrInvalidImport, field)
	}
}
