package records_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// TestOwned: values with an owner and a name are stored, read, and removed by prefix and tag, also on a Cluster: the
// load key of a put has the slot of its value.
func TestOwned(t *testing.T) {
	t.Parallel()
	cart, err := records.NewCache(records.Kind{Name: "cart", Pattern: "cart:{<user>}:<item>", TTL: time.Hour,
		MaxBytes: 100})
	require.NoError(t, err)
	table, err := records.NewTable(cart)
	require.NoError(t, err)
	storagetest.Each(t, func(t *testing.T, k storagetest.Redis) {
		conn := storetest.Connect(t, redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)})
		reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
		require.NoError(t, err)
		t.Cleanup(reads.Close)
		store := redisrecords.NewCaches(table, conn, conn, reads)
		t.Cleanup(store.Close)
		all := []string{"ann:1", "ann:2:x", "bob:1", "a}b:{1}"}
		found := func() (ids []string) {
			entries, err := store.Read(t.Context(), cart, all)
			require.NoError(t, err)
			for i, e := range entries {
				if e.Found {
					require.Equal(t, "of "+all[i], string(e.Bytes))
					ids = append(ids, all[i])
				}
			}
			return ids
		}
		for _, id := range all {
			require.NoError(t, store.Put(t.Context(), records.Value{Key: records.CacheKey{Kind: cart, ID: id},
				Bytes: []byte("of " + id), TTL: time.Hour, Tags: []string{"t:" + id}, Prefixed: true}))
		}
		require.Equal(t, all, found())
		n, err := store.InvalidateTag(t.Context(), "t:bob:1")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		n, err = store.InvalidatePrefix(t.Context(), cart, "ann:")
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.Equal(t, []string{"a}b:{1}"}, found())
		require.NoError(t, store.Invalidate(t.Context(), cart, []string{"a}b:{1}"}))
		require.Empty(t, found())
	})
}
