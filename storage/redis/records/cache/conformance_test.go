package cache_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/records/cache"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	rediscache "github.com/tidemark-dev/tidemark/storage/redis/records/cache"
	"github.com/tidemark-dev/tidemark/storage/storagetest/cachetest"
	"github.com/tidemark-dev/tidemark/storage/storagetest/kinds"
)

type processes struct{ one, other cache.Store }

func (p processes) Store() cache.Store { return p.one }
func (p processes) Other() cache.Store { return p.other }

func TestConformance(t *testing.T) {
	t.Parallel()
	kinds.Each(t, func(t *testing.T, k kinds.Redis) {
		cachetest.Run(t, func(t testing.TB) cachetest.Harness {
			t.Helper()
			o := redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}
			return processes{one: newProcess(t, o), other: newProcess(t, o)}
		})
		cachetest.RunQueue(t, func(t testing.TB) cache.Queue {
			t.Helper()
			return rediscache.NewQueue(rig.Connect(t, redis.Options{URL: k.URL, KeyPrefix: redistest.Prefix(t)}))
		})
	})
}
