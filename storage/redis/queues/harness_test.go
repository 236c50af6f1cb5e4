package queues

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest/queuetest"
)

// hall is a queue on an actual Redis, with direct access to its keys.
type hall struct {
	*queuetest.Queue
	store  *Store
	direct rueidis.Client
}

// onEach runs a test on a standalone Redis and on a Cluster.
func onEach(t *testing.T, test func(t *testing.T, h *hall)) {
	t.Helper()
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		conn, node := storetest.Standalone(t)
		test(t, newHall(t, conn, node.Client()))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		addrs := redistest.Cluster(t).Addrs()
		conn := storetest.Connect(t, redis.Options{URL: strings.Join(addrs, ","), KeyPrefix: redistest.Prefix(t)})
		direct, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: addrs, DisableCache: true})
		require.NoError(t, err)
		t.Cleanup(direct.Close)
		test(t, newHall(t, conn, direct))
	})
}

func newHall(t testing.TB, conn *redis.Conn, direct rueidis.Client) *hall {
	t.Helper()
	return hallOf(t, New(conn, Options{}), direct)
}

func hallOf(t testing.TB, s *Store, direct rueidis.Client) *hall {
	t.Helper()
	t.Cleanup(s.Close)
	return &hall{Queue: &queuetest.Queue{Store: s, Name: "duel"}, store: s, direct: direct}
}

// k returns the keys of the hall's queue.
func (h *hall) k() keys { return h.store.keys(h.Name) }

// do runs a command on a key, bypassing the store.
func (h *hall) do(t testing.TB, command, key string, args ...string) rueidis.RedisResult {
	t.Helper()
	words := strings.Fields(command)
	call := h.direct.B().Arbitrary(words...).Keys(key).Args(args...).Build()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	return h.direct.Do(ctx, call)
}

func (h *hall) count(t testing.TB, command, key string, args ...string) int {
	t.Helper()
	n, err := h.do(t, command, key, args...).AsInt64()
	require.NoError(t, err, "%s %s", command, key)
	return int(n)
}
