package records_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TestFullRedis: values can still be read and removed.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	store := processOf(t, storetest.Connect(t, redis.Options{URL: node.URL()}))
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, store.Put(t.Context(), tagged(id, "1", "t"+id)))
	}
	require.NoError(t, store.Put(t.Context(), plain("d", "1")))
	storetest.Set(t, node, "maxmemory", "1")
	for range 2 {
		require.Equal(t, "1", read(t, store, "a"))
	}
	require.ErrorIs(t, store.Put(t.Context(), tagged("a", "2", "ta")), fault.ErrStorageFull)
	require.Empty(t, read(t, store, "a"), "the older value is gone")
	require.ErrorIs(t, store.Put(t.Context(), plain("d", "2")), fault.ErrStorageFull)
	require.Equal(t, "1", read(t, store, "d"))
	require.NoError(t, store.Invalidate(t.Context(), site.Kind("author"), []string{"b", "d"}))
	n, err := store.InvalidateTag(t.Context(), "tc")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for _, id := range []string{"b", "c", "d"} {
		require.Empty(t, read(t, store, id), id)
	}
}

// TestRedisDown: calls fail while Redis can't be reached. Afterwards they find what was there.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	store := processOf(t, storetest.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t),
		Timeout: time.Second}))
	require.NoError(t, store.Put(t.Context(), tagged("a", "1", "t")))
	require.Equal(t, "1", read(t, store, "a"))
	proxy.Refuse(true)
	proxy.Cut()
	require.Error(t, store.Put(t.Context(), plain("a", "2")))
	require.Error(t, store.Put(t.Context(), tagged("a", "2", "t")))
	require.Error(t, store.Invalidate(t.Context(), site.Kind("author"), []string{"a"}))
	_, err := store.InvalidateTag(t.Context(), "t")
	require.Error(t, err)
	proxy.Refuse(false)
	storetest.WaitFor(t, "Redis to be used again", func() bool {
		entries, err := store.Read(t.Context(), site.Kind("author"), []string{"a"})
		return err == nil && string(entries[0].Bytes) == "1"
	})
	n, err := store.InvalidateTag(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Empty(t, read(t, store, "a"))
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
	store := redisrecords.NewCaches(site.Community().Table, values, indexes, reads)
	t.Cleanup(func() {
		store.Close()
		reads.Close()
	})
	large := strings.Repeat("x", 10<<10)
	var ids []string
	for i := range 500 {
		ids = append(ids, fmt.Sprint(i))
		require.NoError(t, store.Put(t.Context(), tagged(ids[i], large, "t"))) // its load can be evicted, too
	}
	remaining := func() (n int) {
		entries, err := store.Read(t.Context(), site.Kind("author"), ids)
		require.NoError(t, err)
		for _, e := range entries {
			if e.Found {
				n++
			}
		}
		return n
	}
	require.Less(t, remaining(), 400)
	require.Positive(t, remaining())
	n, err := store.InvalidateTag(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, 500, n)
	require.Zero(t, remaining())
}

// TestSlotMove: values are read and invalidated while their slot moves. A put waits for the end of the move.
func TestSlotMove(t *testing.T) {
	t.Parallel()
	nodes := storetest.StartTwoNodes(t)
	store := processOf(t, nodes.Connect(t, redis.Options{Timeout: storetest.Patience}))
	ids := nodes.SameSlot("a", 4)
	for _, id := range ids {
		require.NoError(t, store.Put(t.Context(), plain(id, "1")))
	}
	m := nodes.OpenMove(t, "a")
	m.MoveKey(t, "author:id:{"+ids[0]+"}")
	for _, id := range ids {
		require.Equal(t, "1", read(t, store, id))
	}
	for _, id := range ids[:3] {
		require.NoError(t, store.Invalidate(t.Context(), site.Kind("author"), []string{id}))
		require.Empty(t, read(t, store, id))
	}
	put := make(chan error, 2)
	go func() { put <- store.Put(t.Context(), plain(ids[0], "2")) }()
	go func() { put <- store.Put(t.Context(), tagged(ids[1], "2", "t")) }()
	m.MoveKey(t, "author:id:{"+ids[3]+"}")
	m.CloseSlot(t)
	require.NoError(t, <-put)
	require.NoError(t, <-put)
	require.Equal(t, "2", read(t, store, ids[0]))
	require.Equal(t, "2", read(t, store, ids[1]))
	require.Equal(t, "1", read(t, store, ids[3]))
	for _, id := range ids {
		require.NoError(t, store.Invalidate(t.Context(), site.Kind("author"), []string{id}))
		require.Empty(t, read(t, store, id))
	}
}
