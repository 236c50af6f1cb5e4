package cache

import (
	"log/slog"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/tracked"
)

// TestEntryAddedAgain: an invalidation doesn't remove the entry of a value that was added again after it has read it.
func TestEntryAddedAgain(t *testing.T) {
	t.Parallel()
	conn, err := redis.Connect(t.Context(), redis.Options{
		URL: redistest.Standalone(t).URL(), KeyPrefix: redistest.Prefix(t), Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	defer conn.Close()
	reads, err := tracked.Open(t.Context(), conn, tracked.Options{})
	require.NoError(t, err)
	defer reads.Close()
	s := New(conn, conn, reads)
	defer s.Close()
	for _, x := range []index{tagIndex("t"), prefixIndex(records.Shouts)} {
		entries := func() []rueidis.ZScore {
			found, err := s.scored(t.Context(), func(b rueidis.Builder) rueidis.Completed {
				return b.Zrange().Key(conn.Prefix() + x.ends).Min("0").Max("-1").Withscores().Build()
			})
			require.NoError(t, err)
			return found
		}
		key := cache.Key{Kind: records.Shouts, ID: "a"}
		for _, again := range []bool{true, false} {
			_, err = s.addEntry(t.Context(), x, key, time.Minute)
			require.NoError(t, err)
			page := entries()
			require.Len(t, page, 1)
			if again {
				_, err = s.addEntry(t.Context(), x, key, time.Second) // also if it would end earlier
				require.NoError(t, err)
			}
			_, err = s.removePage(t.Context(), x, page)
			require.NoError(t, err)
			require.Equal(t, again, len(entries()) == 1)
		}
	}
}
