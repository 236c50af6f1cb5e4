package recent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/recent"
)

// TestLRU: events of a key are one entry until there is none for a while, and the oldest entries are dropped.
func TestLRU(t *testing.T) {
	t.Parallel()
	var r recent.LRU[int, string]
	require.Empty(t, r.All())
	now := time.Unix(1000, 0)
	r.Add(1, "a", now)
	r.Add(2, "b", now)
	r.Add(1, "c", now.Add(recent.Gap))
	require.Equal(t, []recent.Entry[int, string]{
		{Key: 1, Value: "c", Since: now, Last: now.Add(recent.Gap), Count: 2},
		{Key: 2, Value: "b", Since: now, Last: now, Count: 1},
	}, r.All())
	later := now.Add(2*recent.Gap + 1)
	r.Add(1, "d", later)
	require.Equal(t, recent.Entry[int, string]{Key: 1, Value: "d", Since: later, Last: later, Count: 1}, r.All()[0])
	for i := range 2 * recent.Max {
		r.Add(i+10, "", later)
	}
	require.Len(t, r.All(), recent.Max)
}
