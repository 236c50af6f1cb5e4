package cache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

func always(value string) cache.Loader[string] {
	return func(context.Context) (string, error) { return value, nil }
}

// TestFullRedis: reads use the loader. Values can still be removed.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	counts := &counter{}
	c := open(t, processOf(t, storetest.Connect(t, redis.Options{URL: node.URL()})),
		cache.Options[string]{Kind: records.Author, Metrics: counts})
	require.NoError(t, c.Put(t.Context(), "a", "1"))
	storetest.Set(t, node, "maxmemory", "1")
	for range 2 {
		value, err := c.Load(t.Context(), "b", always("2"))
		require.NoError(t, err)
		require.Equal(t, "2", value)
	}
	require.Equal(t, 2, counts.of(cache.NotStored))
	value, err := c.Load(t.Context(), "a", always("another"))
	require.NoError(t, err)
	require.Equal(t, "1", value)
	require.ErrorIs(t, c.Put(t.Context(), "a", "3"), fault.ErrStorageFull)
	_, err = c.Get(t.Context(), "a")
	require.ErrorIs(t, err, cache.ErrNotFound, "the older value is gone")
	require.NoError(t, c.Write(t.Context(), "a", "4", func(context.Context) error { return nil }),
		"what is written needn't be cached")
}

// TestRedisDown: each process loads for itself, with bounded concurrency.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	counts := &counter{}
	conn := storetest.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t), Timeout: time.Second})
	c := open(t, processOf(t, conn), cache.Options[string]{Kind: records.Author, MaxLoads: 3, Metrics: counts})
	require.NoError(t, c.Put(t.Context(), "a", "1"))
	proxy.Refuse(true)
	proxy.Cut()
	var now, most atomic.Int32
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			_, err := c.Load(t.Context(), fmt.Sprint(i), func(context.Context) (string, error) {
				n := now.Add(1)
				defer now.Add(-1)
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				return "x", nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	require.LessOrEqual(t, most.Load(), int32(3))
	require.Equal(t, 50, counts.of(cache.Unreachable))
	require.Error(t, c.Put(t.Context(), "a", "2"))
	called := false
	require.Error(t, c.Write(t.Context(), "a", "2", func(context.Context) error { called = true; return nil }))
	require.False(t, called, "an older value could stay in the cache")
	proxy.Refuse(false)
	storetest.WaitFor(t, "Redis to be used again", func() bool {
		value, err := c.Load(t.Context(), "a", always("another"))
		return err == nil && value == "1"
	})
}

// TestEvictingRedis: the cache's Redis may evict any key. Indexes are in another Redis, so that an invalidation by tag
// finds the remaining values.
func TestEvictingRedis(t *testing.T) {
	t.Parallel()
	values, indexes := storetest.Connect(t, redis.Options{URL: redistest.Start(t, redistest.Options{
		Args: []string{"--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"},
	}).URL()}), storetest.Connect(t, redis.Options{URL: redistest.Start(t, redistest.Options{}).URL()})
	reads, err := tracked.Open(t.Context(), values, tracked.Options{})
	require.NoError(t, err)
	store := rediscache.New(values, indexes, reads)
	t.Cleanup(func() {
		store.Close()
		reads.Close()
	})
	c := open(t, store, cache.Options[string]{Kind: records.Author,
		Tags: func(string, string) []string { return []string{"t"} }})
	large := strings.Repeat("x", 10<<10)
	var ids []string
	for i := range 500 {
		ids = append(ids, fmt.Sprint(i))
		require.NoError(t, conformIgnoring(c.Put(t.Context(), ids[i], large))) // its claim can be evicted, too
	}
	left, err := c.GetMany(t.Context(), ids)
	require.NoError(t, err)
	require.Less(t, len(left), 400)
	require.NotEmpty(t, left)
	n, err := c.InvalidateTag(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 500, n)
	left, err = c.GetMany(t.Context(), ids)
	require.NoError(t, err)
	require.Empty(t, left)
}

func conformIgnoring(err error) error {
	if errors.Is(err, cache.ErrSuperseded) {
		return nil
	}
	return err
}

// TestSlotMove: values are read, loaded and invalidated while their slot moves, and after that.
func TestSlotMove(t *testing.T) {
	t.Parallel()
	nodes := storetest.StartTwoNodes(t)
	c := open(t, processOf(t, nodes.Connect(t, redis.Options{})), cache.Options[string]{Kind: records.Author})
	load := func(id, value string) {
		t.Helper()
		got, err := c.Load(t.Context(), id, always(value))
		require.NoError(t, err)
		require.Equal(t, value, got)
	}
	ids := nodes.SameSlot("a", 3)
	for _, id := range ids {
		load(id, "1")
	}
	m := nodes.OpenMove(t, "a")
	m.MoveKey(t, "author:id:{"+ids[0]+"}")
	for _, id := range ids {
		load(id, "1")
		require.NoError(t, c.Invalidate(t.Context(), id))
		load(id, "2") // perhaps without Redis
	}
	m.CloseSlot(t)
	for _, id := range ids {
		require.NoError(t, c.Invalidate(t.Context(), id))
		load(id, "3")
		load(id, "3")
	}
}
