package records

import (
	"encoding/json"
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
	for field, values := range map[string][]string{"_timestamp": {"now", "NaN", "1e400", "0x1p30"}, "_total": {"3"},
		"1": {"7.5"}} {
		for _, wrong := range values {
			fields := map[string]string{"_timestamp": "1640995200", "_total": "1", "1": "7"}
			fields[field] = wrong
			_, err := partsOf(fields)
			require.ErrorIs(t, err, ErrInvalidImport, wrong)
		}
	}
}

// TestKindAsJSON: a program can store and read a kind as it came.
func TestKindAsJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"name":"a","pattern":"a:{}","type":"string","form":"json","ttl":"1h30m0s","secret":false,"maxBytes":7,"redis":"cache"}`,
		`{"name":"b","pattern":"b","type":"hash","form":"text","permanent":"why","secret":true,"maxBytes":0,"redis":"channels"}`,
	} {
		var k Kind
		require.NoError(t, json.Unmarshal([]byte(text), &k))
		again, err := json.Marshal(k)
		require.NoError(t, err)
		require.Equal(t, text, string(again))
	}
}
