package cache_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/storagetest"
	"github.com/tidemark-dev/tidemark/storage/storagetest/recordstest"
)

type processes struct{ one, other cache.Store }

func (p processes) Store() cache.Store { return p.one }
func (p processes) Other() cache.Store { return p.other }

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, k storagetest.Redis) {
		recordstest.RunCache(t, func(t testing.TB) recordstest.CacheHarness {
			t.Helper()
			o := redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}
			return processes{one: newProcess(t, o), other: newProcess(t, o)}
		})
		recordstest.RunCacheQueue(t, func(t testing.TB) cache.Queue {
			t.Helper()
			return rediscache.NewQueue(storetest.Connect(t, redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}))
		})
	})
}
