package records_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// newProcess returns a store with connections of its own, as in a separate process.
func newProcess(t testing.TB, o redis.Options) *redisrecords.Caches {
	t.Helper()
	return processOf(t, storetest.Connect(t, o))
}

func processOf(t testing.TB, conn *redis.Conn) *redisrecords.Caches {
	t.Helper()
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	kinds := site.Community()
	if conn.PlainKeys() {
		kinds, err = kinds.Plain()
		require.NoError(t, err)
	}
	store := redisrecords.NewCaches(kinds.Table, conn, conn, reads)
	t.Cleanup(func() {
		store.Close()
		reads.Close()
	})
	return store
}

// plain returns a value that is in no index.
func plain(id, data string) records.Value {
	return records.Value{Key: records.CacheKey{Kind: site.Kind("author"), ID: id}, Bytes: []byte(data)}
}

// tagged returns a value with tags.
func tagged(id, data string, tags ...string) records.Value {
	v := plain(id, data)
	v.TTL, v.Tags = time.Hour, tags
	return v
}

// read returns an author; "": it isn't there.
func read(t *testing.T, store records.CacheStore, id string) string {
	t.Helper()
	entries, err := store.Read(t.Context(), site.Kind("author"), []string{id})
	require.NoError(t, err)
	return string(entries[0].Bytes)
}

// TestOwnChanges: a process never reads a value that it has replaced or removed itself.
func TestOwnChanges(t *testing.T) {
	t.Parallel()
	store := newProcess(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)})
	for i := range 200 {
		value := strconv.Itoa(i)
		if i%3 == 0 {
			require.NoError(t, store.Put(t.Context(), tagged("1", value, "t")))
		} else {
			require.NoError(t, store.Put(t.Context(), plain("1", value)))
		}
		require.Equal(t, value, read(t, store, "1"))
		if i%2 == 0 {
			require.NoError(t, store.Invalidate(t.Context(), site.Kind("author"), []string{"1"}))
			require.Empty(t, read(t, store, "1"))
		}
	}
}
