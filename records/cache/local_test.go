package cache_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
)

// requireGet requires a value, and its origin.
func (f *fake) requireGet(t *testing.T, c *cache.Cache[string], want string, from cache.Event) {
	t.Helper()
	before := f.of(from)
	value, err := c.Get(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, want, value)
	require.Equal(t, 1, f.of(from)-before, from)
}

// TestKept: a value that was read is kept in the process until it changes, ends, or changes may have been missed.
func TestKept(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{Kind: records.Shouts, TTL: time.Minute},
		func(t *testing.T, f *fake, one, other *cache.Cache[string]) {
			require.NoError(t, other.Put(t.Context(), "a", "1"))
			f.requireGet(t, one, "1", cache.HitRedis)
			f.requireGet(t, one, "1", cache.HitLocal)
			require.NoError(t, other.Put(t.Context(), "a", "2"))
			f.requireGet(t, one, "2", cache.HitRedis)
			for _, l := range f.listeners {
				l.Lost()
			}
			f.requireGet(t, one, "2", cache.HitRedis)
			f.requireGet(t, one, "2", cache.HitLocal)
			<-time.After(time.Minute)
			_, err := one.Get(t.Context(), "a")
			require.ErrorIs(t, err, cache.ErrNotFound)

			// A value that changes while it is being read is answered, and not kept.
			require.NoError(t, other.Put(t.Context(), "a", "old"))
			f.reading = func() {
				f.reading = nil
				require.NoError(t, other.Put(t.Context(), "a", "new"))
			}
			f.requireGet(t, one, "old", cache.HitRedis)
			f.requireGet(t, one, "new", cache.HitRedis)
			require.NoError(t, other.Invalidate(t.Context(), "a"))
			_, err = one.Get(t.Context(), "a")
			require.ErrorIs(t, err, cache.ErrNotFound)
		})
}

// TestLimits: too large values aren't cached, and the memory of the process is bounded: the least recently used values
// are evicted.
func TestLimits(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{LocalBytes: 100 << 10}, func(t *testing.T, f *fake, one, _ *cache.Cache[string]) {
		tooLarge := strings.Repeat("x", records.Author.MaxBytes)
		require.NoError(t, one.Put(t.Context(), "a", "1"))
		require.ErrorIs(t, one.Put(t.Context(), "a", tooLarge), cache.ErrTooLarge)
		_, err := one.Get(t.Context(), "a")
		require.ErrorIs(t, err, cache.ErrNotFound, "the older value is gone")
		requireLoad(t, one, "a", always(tooLarge), tooLarge)
		require.Equal(t, 1, f.of(cache.NotStored))

		large := strings.Repeat("x", 10<<10)
		for i := range 100 {
			require.NoError(t, one.Put(t.Context(), fmt.Sprint(i), large))
			requireLoad(t, one, fmt.Sprint(i), nil, large)
		}
		before := f.of(cache.HitLocal)
		for i := range 100 {
			requireLoad(t, one, fmt.Sprint(99-i), nil, large)
		}
		kept := f.of(cache.HitLocal) - before
		require.LessOrEqual(t, kept, 10)
		require.Positive(t, kept)
		for _, id := range []string{"", "\n", strings.Repeat("x", 513)} {
			require.ErrorIs(t, one.Put(t.Context(), id, "x"), &fault.Error{Slug: fault.SlugInvalidID})
			_, err := one.Load(t.Context(), id, always("x"))
			require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidID})
		}
	})
}

// TestClose: loads end with the cache, and Close waits for them. Close doesn't wait for a loader that ignores its
// context.
func TestClose(t *testing.T) {
	t.Parallel()
	run(t, cache.Options[string]{}, func(t *testing.T, _ *fake, one, _ *cache.Cache[string]) {
		release, done := make(chan struct{}), make(chan error, 2)
		defer close(release)
		for id, load := range map[string]cache.Loader[string]{
			"stops":   func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() },
			"ignores": func(context.Context) (string, error) { <-release; return "late", nil },
		} {
			begun := make(chan struct{})
			go func() {
				_, err := one.Load(t.Context(), id, func(ctx context.Context) (string, error) {
					close(begun)
					return load(ctx)
				})
				done <- err
			}()
			<-begun
		}
		began := time.Now()
		one.Close()
		require.Zero(t, time.Since(began))
		for range 2 {
			require.ErrorIs(t, <-done, cache.ErrLoadTimeout)
		}
	})
}
