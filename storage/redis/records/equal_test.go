package records_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/site"
	domain "github.com/tidemark-dev/tidemark/internal/records/tier"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// The two halves of the sharding keys.
var halves = []shard.Interval{{Last: math.MaxInt64}, {First: math.MaxInt64 + 1, Last: math.MaxUint64}}

func idsOf(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("id=", i)
	}
	return ids
}

// TestEqual: processes change values in all ways while nodes load and follow them, and some processes are killed
// between their announcements. Afterwards the nodes have the values of Redis.
func TestEqual(t *testing.T) {
	t.Parallel()
	storagetest.Each(t, func(t *testing.T, r storagetest.Redis) {
		o := redis.Options{URL: r.URL, KeyPrefix: redistest.Prefix(t)}
		w, ids := newWorld(t, o, o, domain.ChannelRule), idsOf(30)
		nodes := []*node{w.follow(t, site.Kind("author"), halves[0]), w.follow(t, site.Kind("shouts"), halves[0])}
		var writers sync.WaitGroup
		for range 2 {
			authors, shouts := w.process(t)
			writers.Go(func() { change(t, authors, ids) })
			writers.Go(func() { change(t, shouts, ids) })
		}
		nodes = append(nodes, w.follow(t, site.Kind("author"), halves[1]), w.follow(t, site.Kind("shouts"), halves[1]))
		writers.Wait()
		authors, _ := w.process(t)
		for i, when := range []string{"before", "after", "loading"} {
			require.NoError(t, authors.put(t.Context(), ids[i], "old"))
			w.kill(t, ids[i], when)
		}
		w.requireEqual(t, ids, nodes...)
	})
}

// change changes values in all ways.
func change(t *testing.T, v values, ids []string) {
	t.Helper()
	for i := range 150 {
		id := ids[rand.IntN(len(ids))]
		var err error
		switch way := rand.IntN(6); {
		case way == 0:
			err = v.invalidate(t.Context(), id)
		case way == 1 && v.indexed():
			_, err = v.InvalidateTag(t.Context(), "last:"+id[len(id)-1:])
		case way == 2 && v.indexed():
			_, err = v.InvalidatePrefix(t.Context(), v.kind, id[:len(id)-1])
		default:
			err = v.put(t.Context(), id, fmt.Sprint("value ", i))
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// TestStoppedNode: messages expire before a stopped node has read them. It loads everything again.
func TestStoppedNode(t *testing.T) {
	t.Parallel()
	node := redistest.Standalone(t)
	o, rule, ids := redis.Options{URL: node.URL(), KeyPrefix: redistest.Prefix(t)}, domain.ChannelRule, idsOf(20)
	rule.MaxMessages = "10"
	w := newWorld(t, o, o, rule)
	authors, _ := w.process(t)
	n := w.follow(t, site.Kind("author"), shard.All)
	require.NoError(t, authors.put(t.Context(), ids[0], "old"))
	w.requireEqual(t, ids, n)

	w.channels.closed.Lock()
	for _, id := range ids {
		require.NoError(t, authors.put(t.Context(), id, "new"))
	}
	require.NoError(t, authors.invalidate(t.Context(), ids[0]))
	w.channels.closed.Unlock()
	w.requireEqual(t, ids, n)
	require.True(t, n.hadGap())
}

// TestLossyFailover: the Redis of the channels loses announcements that a stopped node hasn't read, and the subscriber
// can't detect it.
func TestLossyFailover(t *testing.T) {
	t.Parallel()
	cluster, standalone, ids := redistest.StartCluster(t, redistest.Options{}), redistest.Standalone(t), idsOf(3)
	w := newWorld(t, redis.Options{URL: standalone.URL(), KeyPrefix: redistest.Prefix(t)},
		redis.Options{URL: strings.Join(cluster.Addrs(), ","), Timeout: time.Minute}, domain.ChannelRule)
	authors, _ := w.process(t)
	n := w.follow(t, site.Kind("author"), shard.All)
	require.NoError(t, authors.put(t.Context(), ids[0], "old"))
	w.requireEqual(t, ids, n)

	w.channels.closed.Lock()
	cluster.FailoverThatLoses(t, cluster.Slot("{"+domain.Channel(site.Kind("author"))+"}"), func() {
		require.NoError(t, authors.put(t.Context(), ids[0], "new"))
		require.NoError(t, authors.put(t.Context(), ids[1], "another"))
	})
	w.channels.closed.Unlock()
	w.requireEqual(t, ids, n)
	require.True(t, n.hadGap())
}

// TestLostValues: the Redis of the values loses some that a node has read already.
func TestLostValues(t *testing.T) {
	t.Parallel()
	cluster, standalone, ids := redistest.StartCluster(t, redistest.Options{}), redistest.Standalone(t), idsOf(3)
	w := newWorld(t, redis.Options{URL: strings.Join(cluster.Addrs(), ","), Timeout: time.Minute},
		redis.Options{URL: standalone.URL(), KeyPrefix: redistest.Prefix(t)}, domain.ChannelRule)
	authors, _ := w.process(t)
	n := w.follow(t, site.Kind("author"), shard.All)
	require.NoError(t, authors.put(t.Context(), ids[0], "old"))
	w.requireEqual(t, ids, n)

	cluster.FailoverThatLoses(t, cluster.Slot("{"+ids[0]+"}"), func() {
		require.NoError(t, authors.put(t.Context(), ids[0], "new"))
		w.requireEqual(t, ids, n)
	})
	require.Equal(t, map[string]string{ids[0]: "old"}, w.inRedis(t, site.Kind("author"), shard.All))
	w.requireEqual(t, ids, n)
	require.True(t, n.hadGap())
}
