package records_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	domain "github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// stale simulates nodes with outdated values: they have an old value for every ID but "none".
type stale struct{}

func (stale) Get(_ context.Context, ids []string) (map[string][]byte, error) {
	found := map[string][]byte{}
	for _, id := range ids {
		if id != "none" {
			found[id] = []byte("old")
		}
	}
	return found, nil
}

// TestStaleTier: answers of nodes are never stored, nor kept in the process. A process never gets an outdated value of
// an ID that it has changed itself.
func TestStaleTier(t *testing.T) {
	t.Parallel()
	conn := storetest.Connect(t, redis.Options{URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t)})
	read := func(store records.CacheStore, id string) string {
		entries, err := store.Read(t.Context(), site.Kind("author"), []string{id})
		require.NoError(t, err)
		return string(entries[0].Bytes)
	}
	open := func() values {
		reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
		require.NoError(t, err)
		store := redisrecords.NewCaches(site.Community().Table, conn, conn, reads)
		through := domain.NewThrough(domain.ThroughOptions{Store: store,
			Clients: map[*records.Kind]domain.Client{site.Kind("author"): stale{}}})
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 1)
		go func() { done <- through.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			require.NoError(t, <-done)
			store.Close()
			reads.Close()
		})
		require.Eventually(t, func() bool { return read(through, "any") == "old" }, storagetest.Patience,
			time.Millisecond, "nodes are asked")
		return values{through, site.Kind("author")}
	}
	first, other := open(), open()
	inRedis := func(id string) string {
		text, _ := conn.Client().Do(t.Context(),
			conn.Client().B().Get().Key(conn.Prefix()+site.Kind("author").Key(id)).Build()).ToString()
		return text
	}

	require.Equal(t, "old", read(first, "1"))
	require.NoError(t, first.invalidate(t.Context(), "1"))
	require.Equal(t, "old", read(other, "1"), "until the node has read the announcement")
	require.Empty(t, read(first, "1"))
	require.Empty(t, inRedis("1"))
	for _, value := range []string{"new", "newer"} {
		require.NoError(t, first.put(t.Context(), "1", value))
		require.Equal(t, value, read(first, "1"))
		require.Equal(t, value, inRedis("1"))
	}
	for _, v := range []values{first, other} {
		require.Empty(t, read(v, "none"))
	}
}
