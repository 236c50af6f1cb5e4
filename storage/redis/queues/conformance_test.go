package queues_test

import (
	"testing"

	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/rig"
	"github.com/tidemark-dev/tidemark/storage/redis/queues"
	"github.com/tidemark-dev/tidemark/storage/storagetest/kinds"
	"github.com/tidemark-dev/tidemark/storage/storagetest/queuetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	kinds.Each(t, func(t *testing.T, r kinds.Redis) {
		queuetest.Run(t, func(t *testing.T) matchmaking.Store {
			t.Helper()
			s := queues.New(rig.Connect(t, redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)}), queues.Options{})
			t.Cleanup(s.Close)
			return s
		})
	})
}
