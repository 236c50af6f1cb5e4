package records_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// peer is one process.
type peer struct {
	*redisrecords.Caches
	reads *tracked.Client
}

func newPeer(t *testing.T, o redis.Options) peer {
	t.Helper()
	conn := storetest.Connect(t, o)
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	store := redisrecords.NewCaches(site.Community().Table, conn, conn, reads)
	t.Cleanup(func() {
		store.Close()
		reads.Close()
	})
	return peer{store, reads}
}

// row returns a value of a row.
func row(id, data string) records.Value {
	kind := site.Kind("shouts")
	return records.Value{Key: records.CacheKey{Kind: kind, ID: id}, Bytes: []byte(data), TTL: kind.TTL}
}

// changes are the ways to change a row. Each puts data, or removes the row.
var changes = []struct {
	name string
	puts bool
	do   func(ctx context.Context, p peer, id, data string) error
}{
	{"put", true, func(ctx context.Context, p peer, id, data string) error {
		v := row(id, data)
		v.Tags, v.Prefixed = []string{"all", "tag " + id}, true
		return p.Put(ctx, v)
	}},
	{"put without indexes", true, func(ctx context.Context, p peer, id, data string) error {
		return p.Put(ctx, row(id, data))
	}},
	{"ID", false, func(ctx context.Context, p peer, id, _ string) error {
		return p.Invalidate(ctx, site.Kind("shouts"), []string{id})
	}},
	{"tag", false, func(ctx context.Context, p peer, id, _ string) error {
		return storagetest.ErrorOf(p.InvalidateTag(ctx, "tag "+id))
	}},
	{"tag of all", false, func(ctx context.Context, p peer, _, _ string) error {
		return storagetest.ErrorOf(p.InvalidateTag(ctx, "all"))
	}},
	{"prefix", false, func(ctx context.Context, p peer, _, _ string) error {
		return storagetest.ErrorOf(p.InvalidatePrefix(ctx, site.Kind("shouts"), "row:"))
	}},
}

// TestNoStaleValue: while many read, rows are put and invalidated at the same time, in all ways. A change after that
// counts for all: once it was answered, and Redis's messages before that have arrived at a process, that process
// answers no older value; neither one that it has in memory, nor one that the indexes have lost.
func TestNoStaleValue(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, k storagetest.Redis) {
		o := redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}
		peers := []peer{newPeer(t, o), newPeer(t, o), newPeer(t, o)}
		for n := range 200 {
			changeOnce(t, peers, n)
		}
	})
}

func changeOnce(t *testing.T, peers []peer, n int) {
	t.Helper()
	id := fmt.Sprint("row:", rand.IntN(6))
	ctx := t.Context()
	var readers, racers sync.WaitGroup
	defer readers.Wait()
	for i := range 6 {
		readers.Go(func() {
			for range 20 {
				if _, err := peers[i%3].Read(ctx, site.Kind("shouts"), []string{id}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 4 {
		racers.Go(func() {
			how := changes[0] // at least two puts
			if i%2 == 1 {
				how = changes[2+rand.IntN(len(changes)-2)]
			}
			if err := how.do(ctx, peers[rand.IntN(3)], id, fmt.Sprint("older ", n)); err != nil {
				t.Error(err)
			}
		})
	}
	racers.Wait()
	how, by, want := changes[n%len(changes)], peers[rand.IntN(3)], ""
	if how.puts {
		want = fmt.Sprint("newest ", n)
	}
	require.NoError(t, how.do(ctx, by, id, want))
	require.Equal(t, want, by.row(t, id), "round %d, %s, its own change", n, how.name)
	for _, p := range peers {
		require.NoError(t, p.reads.Settle(t.Context(), "barrier:{"+id+"}"))
		require.Equal(t, want, p.row(t, id), "round %d, %s", n, how.name)
	}
}

// row returns a row; "": it isn't there.
func (p peer) row(t *testing.T, id string) string {
	t.Helper()
	entries, err := p.Read(t.Context(), site.Kind("shouts"), []string{id})
	require.NoError(t, err)
	return string(entries[0].Bytes)
}
