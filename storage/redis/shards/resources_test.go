package shards_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestCallsOfASilentDataCentre makes thousands of Gets while one of two data centres is silent. Abandoned calls are bounded
// by MaxLate, or by the number that begin within the time-outs, and leave no resources in use.
func TestCallsOfASilentDataCentre(t *testing.T) { //nolint:paralleltest // it counts the goroutines of the process
	// Few enough that they end before the silent connection is closed, 15 s after the last sign of life, also on a busy
	// machine.
	const gets, perSecond, maxLate = 4000, 2000, 100
	const others = 20 // goroutines that other parts of the process, such as connections to Redis, may begin meanwhile
	f := newTier(t, redistest.Standalone(t))
	answers := f.start(t, "a", 1)
	silent := f.start(t, "b", 1)
	for name, c := range map[string]struct { //nolint:paralleltest // as above
		o     shard.ClientOptions
		bound int // of calls
	}{
		"MaxLate": {shard.ClientOptions{Timeout: time.Hour, MaxLate: maxLate}, maxLate},
		// A tenth of a second and a retry: 400 calls at that rate, on a machine that isn't late itself.
		"time-outs": {shard.ClientOptions{Timeout: 100 * time.Millisecond}, gets / 4},
	} {
		t.Run(name, func(t *testing.T) {
			client := f.connect(t, c.o)
			answers.Hold() // so that both have been connected to when goroutines are counted
			require.NoError(t, client.check(t.Context(), edges))
			answers.Pass()
			require.Eventually(t, func() bool { // until the client knows again that it answers
				silent.Hold()
				defer silent.Pass()
				soon, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				return client.check(soon, edges) == nil
			}, patience, time.Millisecond)
			require.NoError(t, client.check(t.Context(), edges))
			idle, before := runtime.NumGoroutine(), heap()
			silent.Hold()
			t.Cleanup(silent.Pass)
			limit, maximum := rate.NewLimiter(perSecond, 1), 0
			for range gets {
				require.NoError(t, limit.Wait(t.Context()))
				require.NoError(t, client.check(t.Context(), edges))
				maximum = max(maximum, runtime.NumGoroutine()-idle)
			}
			grown := heap() - before
			t.Logf("at most %d goroutines more than when idle, and %d KiB of memory", maximum, grown>>10)
			require.Less(t, maximum, c.bound+others)
			require.Less(t, grown, c.bound<<15)
			silent.Pass()
			require.Eventually(t, func() bool { return runtime.NumGoroutine() < idle+others }, patience, 10*time.Millisecond)
		})
	}
}

// heap returns how many bytes are in use.
func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
