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
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

func always(value string) cache.Loader[string] {
	return func(context.Context) (string, error) { return value, nil }
}

// TestBadLoaders: a loader that fails, panics, ends its goroutine or hangs costs only those that wait for it, and not for long. What
// it returned isn't kept, and the next caller in any process loads at once.
func TestBadLoaders(t *testing.T) {
	t.Parallel()
	o := redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)}
	counts := &counter{}
	options := cache.Options[string]{Kind: records.Author, LoadTimeout: 100 * time.Millisecond, MaxLoads: 2, Metrics: counts}
	one, other := open(t, newProcess(t, o), options), open(t, newProcess(t, o), options)
	refused, release := errors.New("refused"), make(chan struct{})
	for name, bad := range map[string]struct {
		load cache.Loader[string]
		want error
	}{
		"fails":          {func(context.Context) (string, error) { return "x", refused }, refused},
		"panics":         {func(context.Context) (string, error) { panic("a defect") }, cache.ErrPanic},
		"hangs":          {func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, cache.ErrLoadTimeout},
		"hangs for good": {func(context.Context) (string, error) { <-release; return "late", nil }, cache.ErrLoadTimeout},
	} {
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				_, err := one.Load(t.Context(), name, bad.load)
				if !errors.Is(err, bad.want) {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		callers.Wait()
		value, err := other.Load(t.Context(), name, always("good"))
		require.NoError(t, err, name)
		require.Equal(t, "good", value, name)
	}
	require.Positive(t, counts.of(cache.LoadFailed))

	// One place of two is still taken. With the other taken, too, there is no room.
	_, err := one.Load(t.Context(), "second", func(context.Context) (string, error) { <-release; return "late", nil })
	require.ErrorIs(t, err, cache.ErrLoadTimeout)
	_, err = one.Load(t.Context(), "third", always("x"))
	require.ErrorIs(t, err, cache.ErrLoadTimeout)
	close(release)
	rig.WaitFor(t, "room", func() bool {
		_, err := one.Load(t.Context(), "fourth", always("x"))
		return err == nil
	})
	value, err := one.Get(t.Context(), "hangs for good")
	require.NoError(t, err)
	require.Equal(t, "good", value)
}

// TestCallerGivesUp: the others still get the value.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	conn, _ := rig.Standalone(t)
	c := open(t, processOf(t, conn), cache.Options[string]{Kind: records.Author})
	gone, cancel := context.WithCancel(t.Context())
	begun, release, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := c.Load(gone, "a", func(context.Context) (string, error) {
			close(begun)
			<-release
			return "value", nil
		})
		first <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	close(release)
	value, err := c.Load(t.Context(), "a", always("another"))
	require.NoError(t, err)
	require.Equal(t, "value", value)
}

// TestNegative: that there is nothing is kept in the process and for others, until it is put.
func TestNegative(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	o := redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t)}
	options := cache.Options[string]{Kind: records.Author, NegativeTTL: time.Minute}
	one, other := open(t, newProcess(t, o), options), open(t, newProcess(t, o), options)
	var loads atomic.Int32
	none := func(context.Context) (string, error) {
		loads.Add(1)
		return "", fmt.Errorf("row 7: %w", cache.ErrNotFound)
	}
	for _, c := range []*cache.Cache[string]{one, other, one, other} {
		_, err := c.Load(t.Context(), "7", none)
		require.ErrorIs(t, err, cache.ErrNotFound)
	}
	require.EqualValues(t, 1, loads.Load())
	sent := proxy.Count()
	for range 100 {
		_, err := other.Load(t.Context(), "7", none)
		require.ErrorIs(t, err, cache.ErrNotFound)
	}
	require.Equal(t, sent, proxy.Count(), "it costs Redis nothing")
	require.NoError(t, one.Put(t.Context(), "7", "there"))
	rig.WaitFor(t, "the other process to learn of it", func() bool {
		value, err := other.Load(t.Context(), "7", none)
		return err == nil && value == "there"
	})
	require.EqualValues(t, 1, loads.Load())
}

// TestEarlyRefresh: near the end of its TTL a value is loaded again in the background, once; readers get the older one meanwhile.
func TestEarlyRefresh(t *testing.T) {
	t.Parallel()
	o := redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)}
	counts := &counter{}
	options := cache.Options[string]{Kind: records.Shouts, TTL: time.Minute, Early: 1e6, Metrics: counts} // at any time
	one, other := open(t, newProcess(t, o), options), open(t, newProcess(t, o), options)
	require.NoError(t, one.Put(t.Context(), "a", "old"))
	begun, release := make(chan struct{}, 10), make(chan struct{})
	load := func(context.Context) (string, error) {
		begun <- struct{}{}
		<-release
		return "new", nil
	}
	for _, c := range []*cache.Cache[string]{one, other} {
		rig.WaitFor(t, "the value to be kept", func() bool {
			value, err := c.Load(t.Context(), "a", load)
			require.NoError(t, err)
			require.Equal(t, "old", value)
			return counts.of(cache.HitLocal) > 0
		})
	}
	<-begun
	close(release)
	rig.WaitFor(t, "the new value", func() bool {
		value, err := other.Load(t.Context(), "a", load)
		require.NoError(t, err)
		return value == "new"
	})
	require.Positive(t, counts.of(cache.Refreshed))
}

// TestFullRedis: reads go on through the loader. Values are still removed.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	node := redistest.Start(t, redistest.Options{})
	counts := &counter{}
	c := open(t, processOf(t, rig.Connect(t, redis.Options{URL: node.URL()})), cache.Options[string]{Kind: records.Author, Metrics: counts})
	require.NoError(t, c.Put(t.Context(), "a", "1"))
	rig.Set(t, node, "maxmemory", "1")
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
	require.NoError(t, c.Write(t.Context(), "a", "4", func(context.Context) error { return nil }), "what is written needn't be cached")
}

// TestRedisDown: each process loads for itself, a bounded number at once.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	counts := &counter{}
	conn := rig.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t), Timeout: time.Second})
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
	rig.WaitFor(t, "Redis to be used again", func() bool {
		value, err := c.Load(t.Context(), "a", always("another"))
		return err == nil && value == "1"
	})
}

// TestEvictingRedis: the cache's Redis evicts whatever it likes. Indexes are in another one, so that an invalidation by tag finds
// what is left.
func TestEvictingRedis(t *testing.T) {
	t.Parallel()
	values, indexes := rig.Connect(t, redis.Options{URL: redistest.Start(t, redistest.Options{
		Args: []string{"--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"},
	}).URL()}), rig.Connect(t, redis.Options{URL: redistest.Start(t, redistest.Options{}).URL()})
	reads, err := tracked.Open(t.Context(), values, tracked.Options{})
	require.NoError(t, err)
	store := rediscache.New(values, indexes, reads)
	t.Cleanup(func() {
		store.Close()
		reads.Close()
	})
	c := open(t, store, cache.Options[string]{Kind: records.Author, Tags: func(string, string) []string { return []string{"t"} }})
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
	nodes := rig.StartTwoNodes(t)
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

// TestLimits: what is too large isn't cached, and what is kept in the process is bounded.
func TestLimits(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Standalone(t))
	conn := rig.Connect(t, redis.Options{URL: proxy.Addr(), KeyPrefix: redistest.Prefix(t)})
	counts := &counter{}
	c := open(t, processOf(t, conn), cache.Options[string]{Kind: records.Author, LocalBytes: 100 << 10, Metrics: counts})
	tooLarge := strings.Repeat("x", records.Author.MaxBytes)
	require.NoError(t, c.Put(t.Context(), "a", "1"))
	require.ErrorIs(t, c.Put(t.Context(), "a", tooLarge), cache.ErrTooLarge)
	_, err := c.Get(t.Context(), "a")
	require.ErrorIs(t, err, cache.ErrNotFound, "the older value is gone")
	value, err := c.Load(t.Context(), "a", always(tooLarge))
	require.NoError(t, err)
	require.Equal(t, tooLarge, value)
	require.Equal(t, 1, counts.of(cache.NotStored))

	for i := range 100 {
		require.NoError(t, c.Put(t.Context(), fmt.Sprint(i), strings.Repeat("x", 10<<10)))
		_, err := c.Get(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
	}
	before := counts.of(cache.HitLocal)
	for i := range 100 {
		_, err := c.Get(t.Context(), fmt.Sprint(99-i))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, counts.of(cache.HitLocal)-before, 10)
	for _, id := range []string{"", "\n", strings.Repeat("x", 513)} {
		require.ErrorIs(t, c.Put(t.Context(), id, "x"), &fault.Error{Slug: fault.SlugInvalidID})
		_, err := c.Load(t.Context(), id, always("x"))
		require.ErrorIs(t, err, &fault.Error{Slug: fault.SlugInvalidID})
	}
}
