package followers_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/internal/records/followers"
	"github.com/tidemark-dev/tidemark/internal/records/site"
	"github.com/tidemark-dev/tidemark/storage/redis"
	redisrecords "github.com/tidemark-dev/tidemark/storage/redis/records"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// events are the events of reads that were counted. It is used by one goroutine.
type events map[records.CacheEvent]int

func (e events) Count(_ *records.Kind, event records.CacheEvent) { e[event]++ }

// TestCached: changes of lists in Redis become visible, and a value that isn't a list counts as missing.
func TestCached(t *testing.T) {
	t.Parallel()
	node := redistest.Standalone(t)
	conn, err := redis.Connect(t.Context(), redis.Options{URL: node.URL(), KeyPrefix: redistest.Prefix(t),
		Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	t.Cleanup(reads.Close)
	store := redisrecords.NewCaches(site.Community().Table, conn, conn, reads)
	t.Cleanup(store.Close)
	counts := events{}
	f := followers.New(followers.NewCached(store, counts), site.Community().Sources)

	const topics = "author:follows-topics:{ann}"
	for _, tt := range []struct{ list, channels string }{
		{`[5,"a"]`, "notifications:topic:5 notifications:topic:a"},
		{`[6]`, "notifications:topic:6"},
		{`{"5":1}`, ""}, {`[5`, ""}, {`"5"`, ""}, {`[[5]]`, ""}, {"\x00\xff", ""}, {"null", ""},
		{"[" + strings.Repeat(`"x",`, 1_000_000) + `"y"]`, "notifications:topic:x notifications:topic:y"},
	} {
		require.NoError(t, node.Do(t, "SET", conn.Prefix()+topics, tt.list).Error())
		require.Eventually(t, func() bool {
			got, err := f.Following(t.Context(), "ann")
			require.NoError(t, err)
			text := strings.Join(got.Channels[2:], " ")
			return text == tt.channels
		}, storagetest.Patience, storagetest.Patience/10_000, "%.20s", tt.list)
	}
	for _, e := range []records.CacheEvent{records.HitRedis, records.Miss, records.Undecodable} {
		require.Positive(t, counts[e], e)
	}
}
