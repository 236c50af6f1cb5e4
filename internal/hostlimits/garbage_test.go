package hostlimits

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGarbageThatIsAllowed(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	g := garbage{percent: ordinaryPercent, collected: now}
	for _, step := range []struct {
		name    string
		gap     time.Duration
		used    int64 // MiB
		percent int
	}{
		{"quiet", time.Second, 8, 100},
		{"busy", 400 * time.Millisecond, 8, 200},
		{"busy, within the same second", 400 * time.Millisecond, 8, 200},
		{"less is in use", 400 * time.Millisecond, 4, 400},
		{"busy for longer", 400 * time.Millisecond, 8, 400},
		{"a little more is in use", 20 * time.Second, 8, 400},
		{"much more is in use", time.Second, 200, 100},
		{"busy with much", 400 * time.Millisecond, 200, 100},
		{"and longer", time.Second - 1, 200, 100},
		{"and longer", 400 * time.Millisecond, 32, 400},
		{"the limit", 400 * time.Millisecond, 32, 400},
		{"the limit", 400 * time.Millisecond, 32, 400},
		{"the limit", 400 * time.Millisecond, 32, 400},
		{"nothing is in use", 10 * time.Second, 0, 12800},
		{"quiet for long", 31 * time.Second, 8, 100},
	} {
		now = now.Add(step.gap)
		require.Equal(t, step.percent, g.next(now, step.used<<20), step.name)
	}
}

// Each collection is noticed, and nothing is left when ctx has ended.
func TestWatchCollections(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	collected := make(chan struct{}, 1)
	watchCollections(ctx, collected)
	for range 3 {
		runtime.GC()
		<-collected
	}
	cancel()
	require.NoError(t, TuneGarbage(ctx))
}
