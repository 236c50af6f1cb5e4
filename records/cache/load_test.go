package cache_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
)

// TestBadLoaders: a loader that fails, panics, ends its goroutine or hangs delays only its own callers, and not for
// long. Its result isn't kept, and the next caller in any process loads at once.
func TestBadLoaders(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{MaxLoads: 2}, func(t *testing.T, f *fake, one, other *cache.Cache[string]) {
		refused, release := errors.New("refused"), make(chan struct{})
		late := func(context.Context) (string, error) { <-release; return "late", nil }
		const long = cache.DefaultLoadTimeout
		for name, bad := range map[string]struct {
			load cache.Loader[string]
			want error
			took time.Duration
		}{
			"fails": {func(context.Context) (string, error) { return "x", refused }, refused, time.Second},
			"panics": {func(context.Context) (string, error) { panic("a defect") }, cache.ErrPanic,
				time.Second},
			"ends its goroutine": {func(context.Context) (string, error) { runtime.Goexit(); return "", nil },
				cache.ErrPanic, time.Second},
			"hangs": {func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() },
				cache.ErrLoadTimeout, long},
			"hangs for good": {late, cache.ErrLoadTimeout, long},
		} {
			began, failed := time.Now(), f.of(cache.LoadFailed)
			var callers sync.WaitGroup
			for range 10 {
				callers.Go(func() {
					_, err := one.Load(t.Context(), name, func(ctx context.Context) (string, error) {
						<-time.After(time.Second) // all callers are there
						return bad.load(ctx)
					})
					if !errors.Is(err, bad.want) {
						t.Errorf("%s: %v", name, err)
					}
				})
			}
			callers.Wait()
			require.Equal(t, bad.took, time.Since(began), name)
			requireLoad(t, other, name, always("good"), "good")
			require.Equal(t, bad.took, time.Since(began), name)
			require.Equal(t, 1, f.of(cache.LoadFailed)-failed, "%s: it ran once for all", name)
		}

		// One slot of two is still in use. With the other in use, too, the next load is refused.
		for _, id := range []string{"second", "third"} {
			_, err := one.Load(t.Context(), id, late)
			require.ErrorIs(t, err, cache.ErrLoadTimeout, id)
		}
		close(release)
		synctest.Wait()
		requireLoad(t, one, "fourth", always("x"), "x")
		value, err := one.Get(t.Context(), "hangs for good")
		require.NoError(t, err)
		require.Equal(t, "good", value, "what came late isn't kept")
	})
}

// TestCallersGiveUp: each caller waits as long as its own context allows. The loader goes on, for the others and for
// the next.
func TestCallersGiveUp(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{}, func(t *testing.T, f *fake, one, _ *cache.Cache[string]) {
		for id, staying := range map[string]int{"joined": 5, "abandoned": 0} {
			release := make(chan struct{})
			load := func(ctx context.Context) (string, error) {
				select {
				case <-release:
					return "value", nil
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			gone, cancel := context.WithCancel(t.Context())
			loaded := f.of(cache.Loaded)
			var leavers, others sync.WaitGroup
			call := func(ctx context.Context, g *sync.WaitGroup, want error) {
				g.Go(func() {
					if _, err := one.Load(ctx, id, load); !errors.Is(err, want) {
						t.Errorf("%s: %v", id, err)
					}
				})
			}
			call(gone, &leavers, context.Canceled)
			synctest.Wait() // the first one's loader serves all
			for range staying {
				call(t.Context(), &others, nil)
				call(gone, &leavers, context.Canceled)
			}
			synctest.Wait()
			cancel()
			leavers.Wait()
			close(release)
			others.Wait()
			requireLoad(t, one, id, always("another"), "value")
			require.Equal(t, 1, f.of(cache.Loaded)-loaded, id)
		}
	})
}

// TestInvalidatedMeanwhile: a caller after an invalidation doesn't get a value that a loader read before it, and no
// process keeps that value.
func TestInvalidatedMeanwhile(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{}, func(t *testing.T, f *fake, one, other *cache.Cache[string]) {
		begun, release := make(chan struct{}), make(chan struct{})
		first := make(chan string)
		var runs atomic.Int32
		go func() {
			value, _ := one.Load(t.Context(), "a", func(context.Context) (string, error) {
				if runs.Add(1) == 1 {
					close(begun)
					<-release
					return "old", nil
				}
				return "loaded again", nil
			})
			first <- value
		}()
		<-begun
		require.NoError(t, other.Invalidate(t.Context(), "a"))
		requireLoad(t, one, "a", always("new"), "new")
		close(release)
		require.Equal(t, "new", <-first, "it reads again, and finds what the later caller has stored")
		requireLoad(t, other, "a", always("x"), "new")
		require.Equal(t, 1, f.of(cache.Superseded))
		require.EqualValues(t, 1, runs.Load())

		// A value that is invalidated each time while it is loaded is loaded three times, not forever.
		runs.Store(0)
		requireLoad(t, one, "b", func(ctx context.Context) (string, error) {
			return fmt.Sprint(runs.Add(1)), other.Invalidate(ctx, "b")
		}, "3")
		_, err := other.Get(t.Context(), "b")
		require.ErrorIs(t, err, cache.ErrNotFound)
	})
}

// TestAnotherProcessLoads: a process waits for another one's load without polling, and not for longer than its claim.
func TestAnotherProcessLoads(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{}, func(t *testing.T, f *fake, one, other *cache.Cache[string]) {
		release, done := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := one.Load(t.Context(), "a", func(context.Context) (string, error) {
				<-release
				return "value",
					nil
			})
			done <- err
		}()
		synctest.Wait()
		time.AfterFunc(3*time.Second, func() { close(release) })
		began, calls := time.Now(), f.calls
		requireLoad(t, other, "a", always("x"), "value")
		require.NoError(t, <-done)
		require.Equal(t, 3*time.Second, time.Since(began))
		require.LessOrEqual(t, f.calls-calls, 5, "read, claim, watch; the other's store; read")

		_, err := f.Claim(t.Context(), cache.Key{Kind: records.Author, ID: "b"},
			cache.Claim{Token: "of a process that has ended", TTL: 4 * time.Second, Mode: cache.Fill})
		require.NoError(t, err)
		began = time.Now()
		requireLoad(t, other, "b", always("mine"), "mine")
		require.Equal(t, 4*time.Second, time.Since(began))
	})
}

// TestNegative: ErrNotFound is cached in the process and for others, until a value is put or some time has passed.
func TestNegative(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{NegativeTTL: time.Minute},
		func(t *testing.T, f *fake, one, other *cache.Cache[string]) {
			loads := 0
			none := func(context.Context) (string, error) {
				loads++
				return "", fmt.Errorf("row 7: %w", cache.ErrNotFound)
			}
			for _, c := range []*cache.Cache[string]{one, other, one, other} {
				_, err := c.Load(t.Context(), "7", none)
				require.ErrorIs(t, err, cache.ErrNotFound)
			}
			require.Equal(t, 1, loads)
			calls := f.calls
			_, err := other.Load(t.Context(), "7", none)
			require.ErrorIs(t, err, cache.ErrNotFound)
			require.Equal(t, calls, f.calls, "it costs the store nothing")
			<-time.After(time.Minute)
			_, err = other.Load(t.Context(), "7", none)
			require.ErrorIs(t, err, cache.ErrNotFound)
			require.Equal(t, 2, loads)
			require.NoError(t, one.Put(t.Context(), "7", "there"))
			requireLoad(t, other, "7", none, "there")
		})
}

// TestEarlyRefresh: near the end of its TTL a value is loaded again in the background, once; readers get the older one
// meanwhile.
func TestEarlyRefresh(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{Kind: records.Shouts, TTL: time.Minute},
		func(t *testing.T, f *fake, one, other *cache.Cache[string]) {
			require.NoError(t, one.Put(t.Context(), "a", "old"))
			var loads atomic.Int32
			release := make(chan struct{})
			fails := func(context.Context) (string, error) { loads.Add(1); return "", errors.New("refused") }
			load := func(context.Context) (string, error) { loads.Add(1); <-release; return "new", nil }
			pass := func(times int, pause time.Duration, load cache.Loader[string]) {
				for range times {
					requireLoad(t, one, "a", load, "old")
					requireLoad(t, other, "a", load, "old")
					synctest.Wait()
					<-time.After(pause)
				}
			}
			pass(41, time.Second, fails) // the TTL is at least 54 s, and its last 12 s are early
			require.Zero(t, loads.Load())
			for loads.Load() == 0 {
				pass(1, 10*time.Millisecond, fails)
			}
			// Just before its end, which the store reports, the load is always early. A failed load is tried again.
			<-time.After(time.Until(f.entries["a"].ends) - time.Millisecond)
			begun := loads.Load()
			pass(3, 0, load)
			require.EqualValues(t, 1, loads.Load()-begun, "in both processes")
			close(release)
			synctest.Wait()
			requireLoad(t, one, "a", load, "new")
			requireLoad(t, other, "a", load, "new")
			require.Equal(t, 1, f.of(cache.Refreshed))
		})
}
