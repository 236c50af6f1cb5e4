package channels

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTTLCache(t *testing.T) {
	t.Parallel()
	c, at := newTTLCache(), time.Now()
	c.set("a", at, time.Hour)
	for _, tt := range []struct {
		key          string
		after, least time.Duration
		want         bool
	}{
		{"a", 0, time.Hour, true},
		{"a", time.Second, time.Hour - time.Second, true},
		{"a", time.Second, time.Hour, false},
		{"a", 6*time.Minute - 1, time.Minute, true},
		{"a", 6 * time.Minute, time.Minute, false}, // it isn't trusted for longer
		{"b", 0, time.Second, false},
	} {
		require.Equal(t, tt.want, c.covers(tt.key, at.Add(tt.after), tt.least, 6*time.Minute), "%+v", tt)
	}
	c.remove("a")
	require.False(t, c.covers("a", at, time.Second, 6*time.Minute))
}
