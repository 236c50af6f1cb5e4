package queues_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		queuetest.Run(t, func(t *testing.T) matchmaking.Store {
			t.Helper()
			s := queues.New(storetest.Connect(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)}),
				queues.Options{})
			t.Cleanup(s.Close)
			return s
		})
	})
}
