package predecessor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
)

// FuzzPollQuery shows that a poll never exceeds the limits.
func FuzzPollQuery(f *testing.F) {
	for _, s := range []string{"", "max=1", "timeout=1h&max=5000", "timeout=-1s", "max=1&max=2", "max=%35", "&&", "=",
		"timeout=%zz", "max=99999999999999999999"} {
		f.Add(s)
	}
	limits := channel.DefaultLimits()
	f.Fuzz(func(t *testing.T, raw string) {
		var q channel.Query
		if err := pollQuery(raw, limits, &q); err != nil {
			return
		}
		require.GreaterOrEqual(t, q.Max, 0)
		require.LessOrEqual(t, q.Max, limits.MaxMax)
		require.GreaterOrEqual(t, int64(q.Wait), int64(0))
		require.LessOrEqual(t, q.Wait, limits.MaxWait)
	})
}
