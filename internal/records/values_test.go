package records_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func openStore(t *testing.T) records.CacheStore {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: redistest.Standalone(t).URL(),
		KeyPrefix: redistest.Prefix(t)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	t.Cleanup(reads.Close)
	store := redisrecords.NewCaches(site.Community().Table, conn, conn, reads)
	t.Cleanup(store.Close)
	return store
}

// counter counts events. It is used by one goroutine.
type counter map[records.CacheEvent]int

func (c counter) Count(_ *records.Kind, e records.CacheEvent) { c[e]++ }

// TestValues puts, reads and removes a value of each kind.
func TestValues(t *testing.T) {
	t.Parallel()
	counts := counter{}
	values := records.NewValues(openStore(t), counts)
	list, err := records.ListID(url.Values{"topic": {"5"}, "limit": {"10"}})
	require.NoError(t, err)
	const ids, shouts = ` [1, "ann"]`, `[{"id":1}]`
	texts := map[string][2]string{ // ID and value of each kind
		"author": {"123", author}, "author-slug": {"username", "123"}, "author-followers": {"123", ids},
		"author-follows-topics": {"123", ids}, "author-follows-authors": {"123", ids},
		"author-follows-shouts": {"123", ids}, "topic": {"5", topic}, "topic-slug": {"tema-slug", topic},
		"topic-authors": {"5", ids}, "topic-followers": {"5", ids}, "shout-followers": {"5", ids},
		"shouts": {list, shouts}, "topic-shouts": {"5", shouts}, "search": {"go redis", results},
	}
	put := func(k *records.Kind) {
		require.NoError(t, values.Put(t.Context(),
			records.Value{Key: records.CacheKey{Kind: k, ID: texts[k.Name][0]}, Bytes: []byte(texts[k.Name][1])}), k.Name)
	}
	require.Len(t, texts, len(site.Community().Table.Caches()))
	for _, k := range site.Community().Table.Caches() {
		put(k)
		got, err := values.Get(t.Context(), k, texts[k.Name][0])
		require.NoError(t, err, k.Name)
		require.Equal(t, texts[k.Name][1], string(got), "byte for byte")
		require.NoError(t, values.Delete(t.Context(), k, texts[k.Name][0]))
		_, err = values.Get(t.Context(), k, texts[k.Name][0])
		require.ErrorIs(t, err, records.ErrNotCached, k.Name)
		put(k)
	}
	entries, err := values.GetMany(t.Context(), site.Community().Table.Caches()[0], []string{"123", "none"})
	require.NoError(t, err)
	require.True(t, entries[0].Found)
	require.False(t, entries[1].Found)
	require.Equal(t, counter{records.HitRedis: 15, records.Miss: 15}, counts)

	// The lists of the topic have its tag; the topic itself doesn't.
	n, err := values.InvalidateTags(t.Context(), []string{"topic:5"})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for name, kept := range map[string]bool{"shouts": false, "topic-shouts": false, "topic": true, "search": true} {
		k, err := site.Community().Table.Cache(name)
		require.NoError(t, err)
		entries, err := values.GetMany(t.Context(), k, []string{texts[name][0]})
		require.NoError(t, err)
		require.Equal(t, kept, entries[0].Found, name)
	}
}

// order is a store that records when it is called.
type order struct {
	records.CacheStore
	events []string
}

func (o *order) Put(context.Context, records.Value) error {
	o.events = append(o.events, "stored")
	return nil
}

// TestChecked: the check of a value, which takes memory, has ended before the store is called.
func TestChecked(t *testing.T) {
	t.Parallel()
	k, err := site.Community().Table.Cache("author-followers")
	require.NoError(t, err)
	for value, want := range map[string][]string{`[1]`: {"checked", "stored"}, `[`: {"checked"}} {
		s := &order{}
		err := records.NewValues(s, nil).Put(t.Context(), records.Value{Key: records.CacheKey{Kind: k, ID: "1"}, Bytes: []byte(value),
			Checked: func() { s.events = append(s.events, "checked") }})
		require.Equal(t, len(want) == 1, err != nil)
		require.Equal(t, want, s.events)
	}
}
