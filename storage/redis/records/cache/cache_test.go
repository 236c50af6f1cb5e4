package cache_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// process returns a store as one process has it: with connections of its own.
func process(t testing.TB, o redis.Options) *rediscache.Store {
	t.Helper()
	conn := rig.Connect(t, o)
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	store := rediscache.New(conn, conn, reads)
	t.Cleanup(func() {
		store.Close()
		reads.Close()
	})
	return store
}

// open returns a cache of a process.
func open[T any](t testing.TB, store cache.Store, o cache.Options[T]) *cache.Cache[T] {
	t.Helper()
	c := cache.New(store, o)
	t.Cleanup(c.Close)
	return c
}

// TestLoadOnce: of 1,000 callers on three processes, one loads.
func TestLoadOnce(t *testing.T) {
	t.Parallel()
	o := redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)}
	var caches []*cache.Cache[string]
	for range 3 {
		caches = append(caches, open(t, process(t, o), cache.Options[string]{Kind: records.Author}))
	}
	var loads atomic.Int32
	release := make(chan struct{})
	var callers sync.WaitGroup
	started := make(chan struct{}, 1000)
	for i := range 1000 {
		callers.Go(func() {
			started <- struct{}{}
			value, err := caches[i%3].Load(t.Context(), "7", func(context.Context) (string, error) {
				loads.Add(1)
				<-release
				return "value", nil
			})
			if err != nil || value != "value" {
				t.Errorf("%q, %v", value, err)
			}
		})
	}
	for range 1000 {
		<-started
	}
	close(release)
	callers.Wait()
	require.EqualValues(t, 1, loads.Load())
}

func TestSmoke(t *testing.T) {
	t.Parallel()
	o := redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)}
	a := open(t, process(t, o), cache.Options[string]{Kind: records.Shouts, Prefixes: true, Tags: func(_, v string) []string { return []string{"t" + v} }})
	b := open(t, process(t, o), cache.Options[string]{Kind: records.Shouts, Prefixes: true, Tags: func(_, v string) []string { return []string{"t" + v} }})
	require.NoError(t, a.Put(t.Context(), "x:1", "1"))
	require.NoError(t, a.Put(t.Context(), "x:2", "2"))
	v, err := b.Get(t.Context(), "x:1")
	require.NoError(t, err)
	require.Equal(t, "1", v)
	n, err := b.InvalidateTag(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = b.Get(t.Context(), "x:1")
	require.ErrorIs(t, err, cache.ErrNotFound)
	n, err = a.InvalidatePrefix(t.Context(), "x:")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = b.Get(t.Context(), "x:2")
	require.ErrorIs(t, err, cache.ErrNotFound)
	_, err = a.Load(t.Context(), "n", func(context.Context) (string, error) { return "", cache.ErrNotFound })
	require.ErrorIs(t, err, cache.ErrNotFound)
	_, err = b.Load(t.Context(), "n", func(context.Context) (string, error) { return "", errors.New("no") })
	require.ErrorIs(t, err, cache.ErrNotFound)
	_, err = b.Load(t.Context(), "p", func(context.Context) (string, error) { panic("oh") })
	require.ErrorIs(t, err, cache.ErrPanic)
}

// TestOwnChanges: a process never reads what it has replaced or removed itself.
func TestOwnChanges(t *testing.T) {
	t.Parallel()
	store := process(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)})
	read := func() string {
		entries, err := store.Read(t.Context(), records.Author, []string{"1"})
		require.NoError(t, err)
		return string(entries[0].Bytes)
	}
	for i := range 200 {
		value := strconv.Itoa(i)
		require.NoError(t, store.Store(t.Context(), cache.Value{Key: cache.Key{Kind: records.Author, ID: "1"}, Bytes: []byte(value)}))
		require.Equal(t, value, read())
		if i%2 == 0 {
			require.NoError(t, store.Invalidate(t.Context(), records.Author, []string{"1"}))
			require.Empty(t, read())
		}
	}
}
