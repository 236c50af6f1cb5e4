package entities_test

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/records/entities"
	"github.com/tidemark-dev/tidemark/storage/redis"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

func TestMain(m *testing.M) { redistest.Main(m) }

func openStore(t *testing.T) cache.Store {
	t.Helper()
	conn, err := redis.Connect(t.Context(), redis.Options{URL: redistest.Standalone(t).URL(),
		KeyPrefix: redistest.Prefix(t)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	t.Cleanup(reads.Close)
	store := rediscache.New(conn, conn, reads)
	t.Cleanup(store.Close)
	return store
}

// same stores a value of a kind by its typed cache and checks that it is read as text, byte for byte; and vice versa.
func same[T any](t *testing.T, v *entities.Values, c *cache.Cache[T], kind, id, text string, value T) {
	t.Helper()
	k, err := entities.Find(kind)
	require.NoError(t, err)
	require.NoError(t, c.Put(t.Context(), id, value))
	got, err := v.Get(t.Context(), k, id)
	require.NoError(t, err)
	require.Equal(t, text, string(got), kind)
	require.NoError(t, v.Delete(t.Context(), k, id))
	_, err = c.Get(t.Context(), id)
	require.ErrorIs(t, err, cache.ErrNotFound, kind)
	require.NoError(t, v.Put(t.Context(), entities.Value{Kind: k, ID: id, Bytes: []byte(text)}))
	typed, err := c.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, value, typed, kind)
}

// counter counts events. It is used by one goroutine.
type counter map[cache.Event]int

func (c counter) Count(_ *records.Kind, e cache.Event) { c[e]++ }

// TestTypedCaches reads and writes each kind typed and as text.
func TestTypedCaches(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	counts := counter{}
	values, caches := entities.NewValues(store, counts), entities.NewCaches(store, entities.CachesOptions{})
	defer caches.Close()
	list, err := entities.ListID(url.Values{"topic": {"5"}, "limit": {"10"}})
	require.NoError(t, err)
	const ids, shouts = `[1,"ann"]`, `[{"id":1}]`
	some := []entities.ID{"1", "ann"}
	one := entities.Shouts{entities.Shout(`{"id":1}`)}
	same(t, values, caches.Authors, "author", "123", again[entities.Author](t, author),
		parsed[entities.Author](t, author))
	same(t, values, caches.AuthorSlugs, "author-slug", "username", "123", entities.ID("123"))
	same(t, values, caches.AuthorFollowers, "author-followers", "123", ids, some)
	same(t, values, caches.AuthorFollowsTopics, "author-follows-topics", "123", ids, some)
	same(t, values, caches.AuthorFollows, "author-follows-authors", "123", ids, some)
	same(t, values, caches.AuthorFollowsShouts, "author-follows-shouts", "123", ids, some)
	same(t, values, caches.Topics, "topic", "5", topic, parsed[entities.Topic](t, topic))
	same(t, values, caches.TopicSlugs, "topic-slug", "tema-slug", topic, parsed[entities.Topic](t, topic))
	same(t, values, caches.TopicAuthors, "topic-authors", "5", ids, some)
	same(t, values, caches.TopicFollowers, "topic-followers", "5", ids, some)
	same(t, values, caches.ShoutFollowers, "shout-followers", "5", ids, some)
	same(t, values, caches.Shouts, "shouts", list, shouts, one)
	same(t, values, caches.TopicShouts, "topic-shouts", "5", shouts, one)
	same(t, values, caches.Searches, "search", "go redis", results, parsed[entities.Results](t, results))

	entries, err := values.GetMany(t.Context(), &entities.Kinds[0], []string{"123", "none"})
	require.NoError(t, err)
	require.True(t, entries[0].Found)
	require.Equal(t, counter{cache.HitRedis: 15, cache.Miss: 1}, counts, "14 values, and those of the last call")

	// The lists of the topic have its tag, whichever API stored them; the topic itself doesn't.
	n, err := values.InvalidateTags(t.Context(), []string{"topic:5"})
	require.NoError(t, err)
	require.Equal(t, 2, n)
	_, err = caches.Shouts.Get(t.Context(), list)
	require.ErrorIs(t, err, cache.ErrNotFound)
	_, err = caches.Topics.Get(t.Context(), "5")
	require.NoError(t, err)
	require.NoError(t, caches.Shouts.Put(t.Context(), list, one))
	n, err = values.InvalidateTags(t.Context(), []string{"topic:5"})
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// meddled is a store that runs a function between a claim and the following call.
type meddled struct {
	store

	meanwhile func()
}

type store = cache.Store

func (m meddled) Store(ctx context.Context, v cache.Value) error {
	m.meanwhile()
	return m.store.Store(ctx, v)
}

// TestPutsAtTheSameTime: a put that was superseded by another change counts as made before it, and leaves no claim.
func TestPutsAtTheSameTime(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	others := entities.NewValues(store, nil)
	k, err := entities.Find("topic")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		meanwhile func(id string) error
		want      string // "": nothing is cached
	}{
		"put": {func(id string) error { return others.Put(t.Context(), titled(k, id, "later")) },
			`{"title":"later"}`},
		"delete": {func(id string) error { return others.Delete(t.Context(), k, id) }, ""},
		"tag invalidated": {func(id string) error {
			_, err := others.InvalidateTags(t.Context(),
				[]string{id})
			return err
		}, ""},
	} {
		values := entities.NewValues(meddled{store, func() { require.NoError(t, c.meanwhile(name), name) }}, nil)
		require.NoError(t, values.Put(t.Context(), titled(k, name, "earlier")), name)
		got, err := others.Get(t.Context(), k, name)
		if c.want != "" {
			require.Equal(t, c.want, string(got), name)
			continue
		}
		require.ErrorIs(t, err, cache.ErrNotFound, name)
		claimed, err := store.Claim(t.Context(), cache.Key{Kind: k.Kind, ID: name},
			cache.Claim{Token: "1", TTL: time.Second, Mode: cache.Fill})
		require.NoError(t, err)
		require.Equal(t, cache.Granted, claimed.Outcome, name)
	}
}

func titled(k *entities.Kind, id, title string) entities.Value {
	return entities.Value{Kind: k, ID: id, Bytes: []byte(`{"title":"` + title + `"}`), Tags: []string{id}}
}
