package cache_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// newProcess returns a store with connections of its own, as in a separate process.
func newProcess(t testing.TB, o redis.Options) *rediscache.Store {
	t.Helper()
	return processOf(t, storetest.Connect(t, o))
}

func processOf(t testing.TB, conn *redis.Conn) *rediscache.Store {
	t.Helper()
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
		caches = append(caches, open(t, newProcess(t, o), cache.Options[string]{Kind: records.Author}))
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

// TestOwnChanges: a process never reads a value that it has replaced or removed itself.
func TestOwnChanges(t *testing.T) {
	t.Parallel()
	store := newProcess(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)})
	read := func() string {
		entries, err := store.Read(t.Context(), records.Author, []string{"1"})
		require.NoError(t, err)
		return string(entries[0].Bytes)
	}
	for i := range 200 {
		value := strconv.Itoa(i)
		require.NoError(t, store.Store(t.Context(), cache.Value{Key: cache.Key{Kind: records.Author, ID: "1"},
			Bytes: []byte(value)}))
		require.Equal(t, value, read())
		if i%2 == 0 {
			require.NoError(t, store.Invalidate(t.Context(), records.Author, []string{"1"}))
			require.Empty(t, read())
		}
	}
}
