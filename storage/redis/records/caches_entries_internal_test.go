package records

import (
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// open opens stores of one Redis, for the kinds of tables.
func open(t *testing.T, tables ...*records.Table) []*Caches {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{
		URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	t.Cleanup(reads.Close)
	stores := make([]*Caches, len(tables))
	for i, table := range tables {
		stores[i] = NewCaches(table, conn, conn, reads)
		t.Cleanup(stores[i].Close)
	}
	return stores
}

// entries returns the entries of an index.
func (s *Caches) entries(t *testing.T, x index) []rueidis.ZScore {
	t.Helper()
	found, err := s.scored(t.Context(), func(b rueidis.Builder) rueidis.Completed {
		return b.Zrange().Key(s.indexes.Prefix() + x.ends).Min("0").Max("-1").Withscores().Build()
	})
	require.NoError(t, err)
	return found
}

// TestEntryAddedAgain: an invalidation doesn't remove the entry of a value that was added again after it has read it.
func TestEntryAddedAgain(t *testing.T) {
	t.Parallel()
	s := open(t, site.Community().Table)[0]
	for _, x := range []index{s.tagIndex("t"), s.prefixIndex(site.Kind("shouts"))} {
		key := records.CacheKey{Kind: site.Kind("shouts"), ID: "a"}
		for _, again := range []bool{true, false} {
			require.NoError(t, s.addEntry(t.Context(), x, key, time.Minute))
			page := s.entries(t, x)
			require.Len(t, page, 1)
			if again {
				require.NoError(t, s.addEntry(t.Context(), x, key, time.Second)) // also if it would end earlier
			}
			_, err := s.removePage(t.Context(), x, page)
			require.NoError(t, err)
			require.Equal(t, again, len(s.entries(t, x)) == 1)
		}
	}
}

// TestEntriesEnd: the entries of a value end soon after it, and make room for those of others.
func TestEntriesEnd(t *testing.T) {
	t.Parallel()
	s := open(t, site.Community().Table)[0]
	require.NoError(t, s.Put(t.Context(), records.Value{Key: records.CacheKey{Kind: site.Kind("shouts"), ID: "a"},
		TTL: site.Kind("shouts").TTL, Tags: []string{"t"}, Prefixed: true}))
	for _, x := range []index{s.tagIndex("t"), s.prefixIndex(site.Kind("shouts"))} {
		found := s.entries(t, x)
		require.Len(t, found, 1)
		life := time.Until(time.UnixMicro(int64(found[0].Score)))
		require.InDelta(t, site.Kind("shouts").TTL+entryLife, life, float64(time.Minute), x.ends)
	}
}

// TestUnknownKinds: a server with a table that doesn't have a kind yet invalidates the values of its own kinds with a
// tag, however many others there are, and leaves those to the servers that know them.
func TestUnknownKinds(t *testing.T) {
	t.Parallel()
	older, err := records.NewTable(site.Kind("author"))
	require.NoError(t, err)
	stores := open(t, older, site.Community().Table)
	before, after := stores[0], stores[1]
	key := records.CacheKey{Kind: site.Kind("topic"), ID: "a"}
	for i := range cachePage + 1 {
		other := records.CacheKey{Kind: site.Kind("shouts"), ID: strconv.Itoa(i)}
		require.NoError(t, after.addEntry(t.Context(), after.tagIndex("t"), other, time.Minute))
	}
	for _, k := range []records.CacheKey{key, {Kind: site.Kind("author"), ID: "a"}} {
		require.NoError(t, after.Put(t.Context(), records.Value{Key: k, Bytes: []byte("1"), TTL: time.Hour,
			Tags: []string{"t"}}))
	}
	for _, want := range []int{1, 0} {
		n, err := before.InvalidateTag(t.Context(), "t")
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	n, err := after.InvalidateTag(t.Context(), "t")
	require.NoError(t, err)
	require.Equal(t, cachePage+2, n)
	found, err := after.Read(t.Context(), key.Kind, []string{key.ID})
	require.NoError(t, err)
	require.False(t, found[0].Found)
	require.Empty(t, after.entries(t, after.tagIndex("t")))
}
