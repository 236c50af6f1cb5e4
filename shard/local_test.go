package shard_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

// The own data centre is asked first, others when it is slower than usual, or at once if it can't answer.
func TestLocalDataCentre(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*peer)
		calls  int
		after  time.Duration
	}{
		"answers":        {func(*peer) {}, 1, 10 * time.Millisecond},
		"is slow":        {func(p *peer) { p.delay = 200 * time.Millisecond }, 3, 30 * time.Millisecond},
		"fails":          {func(p *peer) { p.err, p.delay = shard.ErrUnavailable, 0 }, 4, 10 * time.Millisecond},
		"has other keys": {func(p *peer) { p.interval.First, p.delay = 5, 0 }, 3, 10 * time.Millisecond},
		"sends bad bytes": {func(p *peer) { p.delay, p.answer = 0, func(a *shard.Response) { a.Payload = nil } }, 3,
			10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("abc", 1)
			delay := func(d time.Duration) { w.set(func(p *peer) { p.delay = d }, "a0", "b0", "c0") }
			delay(20 * time.Millisecond)
			inWorld(t, w, shard.ClientOptions{LocalDC: "b", PingPeriod: time.Hour}, func(t *testing.T, c *client) {
				get := func() time.Duration {
					start := time.Now()
					got, err := c.Get(t.Context(), ends)
					require.NoError(t, err)
					require.Equal(t, valuesOf(ends...), got)
					return time.Since(start)
				}
				wait(time.Second)
				for range 16 { // from then on it knows what is usual
					get()
				}
				require.Len(t, w.sorted(&w.calls), 16)
				delay(10 * time.Millisecond)
				w.set(test.change, "b0")
				require.Equal(t, test.after, get())
				wait(2 * time.Second)
				require.Len(t, w.sorted(&w.calls), test.calls)
			})
		})
	}
}

// A host that fails at once doesn't affect the estimate of how long answers take.
func TestFailuresOfTheLocalDataCentre(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	inWorld(t, w, shard.ClientOptions{LocalDC: "b", PingPeriod: time.Hour}, func(t *testing.T, c *client) {
		gets := func(n int, change func(*peer)) (calls int) {
			w.set(change, "b0")
			for range n {
				_, err := c.Get(t.Context(), ends)
				require.NoError(t, err)
				wait(time.Second)
			}
			return len(w.sorted(&w.calls))
		}
		require.Equal(t, 16, gets(16, func(p *peer) { p.delay = 20 * time.Millisecond }))
		answers := func(p *peer) { p.err, p.delay = nil, 10*time.Millisecond }
		gets(200, func(p *peer) { p.err, p.delay = errors.New("no token"), time.Microsecond })
		require.Equal(t, 2, gets(1, answers), "it failed the last time")
		require.Equal(t, 1, gets(1, answers))
	})
}

// While the latency of the own data centre is unknown, others are asked after MaxHedge. They are asked at once if a
// host has failed.
func TestLocalDataCentreIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	inWorld(t, w, shard.ClientOptions{LocalDC: "b", MaxHedge: 50 * time.Millisecond}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay = time.Hour }, "b0")
		for _, after := range []time.Duration{50 * time.Millisecond, 0} {
			start := time.Now()
			_, err := c.Get(t.Context(), ends)
			require.NoError(t, err)
			require.Equal(t, after, time.Since(start))
			wait(2500 * time.Millisecond)
		}
	})
}

// More late calls than MaxLate are given up, the oldest first.
func TestMaxLate(t *testing.T) {
	t.Parallel()
	w := newWorld("abc", 1)
	inWorld(t, w, shard.ClientOptions{MaxLate: 4, PingPeriod: time.Hour}, func(t *testing.T, c *client) {
		get := func(delay time.Duration) {
			w.set(func(p *peer) { p.delay = delay }, "b0", "c0")
			_, err := c.Get(t.Context(), ends)
			require.NoError(t, err)
			w.sorted(&w.seen)
		}
		get(500 * time.Millisecond)
		get(10 * time.Millisecond)
		wait(20 * time.Millisecond)
		require.Equal(t, []string{"late b0", "late c0"}, w.sorted(&w.seen)) // they don't count any more
		get(600 * time.Millisecond)
		w.set(func(p *peer) { p.delay = 700 * time.Millisecond }, "b0", "c0")
		_, err := c.Get(t.Context(), ends)
		require.NoError(t, err)
		require.Equal(t, []string{"first a0 0s", "given up b0", "given up c0"}, w.sorted(&w.seen))
		wait(time.Second)
		require.Equal(t, []string{"late b0", "late b0", "late c0", "late c0"}, w.sorted(&w.seen))
	})
}

// The memory of values is free while calls go on that weren't needed: there are many of them while nodes hang.
func TestLateCallsKeepNoValues(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	inWorld(t, w, shard.ClientOptions{PingPeriod: time.Hour}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay = 500 * time.Millisecond }, "b0")
		key := strings.Repeat("0", 100) + "1"
		got, err := c.Get(t.Context(), []string{key})
		require.NoError(t, err)
		value := weak.Make(unsafe.StringData(got[key]))
		require.NotNil(t, value.Value())
		runtime.KeepAlive(got)
		runtime.GC()
		require.Nil(t, value.Value())
		wait(time.Second)
		require.Equal(t, []string{"first a0 0s", "late b0"}, w.sorted(&w.seen))
	})
}
