package records_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	domain "github.com/tidemark-dev/tidemark/records/tier"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
)

// stale simulates nodes with outdated values: they have an old value for every ID but "none".
type stale struct{}

func (stale) Get(_ context.Context, ids []string) (map[string][]byte, error) {
	found := map[string][]byte{}
	for _, id := range ids {
		if id != "none" {
			found[id] = []byte(`"old"`)
		}
	}
	return found, nil
}

// TestStaleTier: answers of nodes are never stored. A process never gets an outdated value of an ID that it has changed
// itself.
func TestStaleTier(t *testing.T) {
	t.Parallel()
	conn := storetest.Connect(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)})
	open := func() *cache.Cache[string] {
		reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
		require.NoError(t, err)
		store := rediscache.New(conn, conn, reads)
		through := domain.NewThrough(domain.ThroughOptions{Store: store,
			Clients: map[*records.Kind]domain.Client{records.Author: stale{}}})
		c := cache.New(through, cache.Options[string]{Kind: records.Author})
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- through.Run(ctx) }()
		require.Eventually(t, func() bool { // nodes are asked
			entries, err := through.Read(t.Context(), records.Author, []string{"any"})
			return err == nil && entries[0].Found
		}, storagetest.Patience, time.Millisecond)
		t.Cleanup(func() {
			c.Close()
			stop()
			require.NoError(t, <-done)
			store.Close()
			reads.Close()
		})
		return c
	}
	one, other := open(), open()
	loads := 0
	load := func(c *cache.Cache[string], id, value string, err error) (string, error) {
		return c.Load(t.Context(), id, func(context.Context) (string, error) {
			loads++
			return value, err
		})
	}
	inRedis := func(id string) string {
		text, _ := conn.Client().Do(t.Context(),
			conn.Client().B().Get().Key(conn.Prefix()+records.Author.Key(id)).Build()).ToString()
		return text
	}

	require.NoError(t, one.Invalidate(t.Context(), "1"))
	value, err := load(other, "1", "new", nil)
	require.NoError(t, err)
	require.Equal(t, "old", value, "until the node has read the announcement")
	require.Empty(t, inRedis("1"))
	require.Zero(t, loads)
	value, err = load(one, "1", "new", nil)
	require.NoError(t, err)
	require.Equal(t, "new", value)
	require.Equal(t, `"new"`, inRedis("1"))
	require.NoError(t, one.Write(t.Context(), "1", "newer", func(context.Context) error { return nil }))
	value, err = one.Get(t.Context(), "1")
	require.NoError(t, err)
	require.Equal(t, "newer", value)

	// The absence of a value is known to all processes, for a short time.
	loads = 0
	for _, c := range []*cache.Cache[string]{one, other, one} {
		_, err = load(c, "none", "", cache.ErrNotFound)
		require.ErrorIs(t, err, cache.ErrNotFound)
	}
	require.Equal(t, 1, loads)
}
