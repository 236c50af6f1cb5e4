package redis_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/internal/storetest"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// Many probes at once cost as much as few, and leave one key.
func TestReadyIsShared(t *testing.T) {
	t.Parallel()
	m := storetest.NewMeter(t, redistest.Options{})
	before := m.Tap.Count()
	started := time.Now()
	var g errgroup.Group
	for range 1000 {
		g.Go(func() error { return m.Conn.Ready(t.Context()) })
	}
	require.NoError(t, g.Wait())
	limit := 1 + int(time.Since(started)/(100*time.Millisecond))
	sent := m.Tap.Sent(before)
	for _, command := range []string{"SSUBSCRIBE", "EVALSHA"} {
		require.LessOrEqual(t, len(storetest.WithName(sent, command)), limit, command)
	}

	var documented []string
	for _, row := range storetest.KeyRows(t, "servers", "## Keys") {
		if strings.HasPrefix(row.Key, "tidemark.ready.") {
			documented = append(documented, "^"+strings.Replace(regexp.QuoteMeta(row.Key), "<server>", "[0-9A-Z]{26}",
				1)+"$")
		}
	}
	require.Len(t, documented, 2)
	for i, command := range [][]string{{"PUBSUB", "SHARDCHANNELS"}, {"KEYS", "*"}} {
		keys, err := m.Node.Do(t, command...).AsStrSlice()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.Regexp(t, documented[i], keys[0])
		if command[0] == "KEYS" {
			ends, err := m.Node.Do(t, "PTTL", keys[0]).AsInt64()
			require.NoError(t, err)
			require.Positive(t, ends)
			require.LessOrEqual(t, ends, time.Minute.Milliseconds())
		}
	}
}

// A primary of a Cluster doesn't answer, or refuses writes. The others go on.
func TestReadyChecksEachPrimary(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Options{Replicas: -1})
	for _, n := range cluster.Nodes() {
		storetest.Set(t, n, "cluster-require-full-coverage", "no")
	}
	conn := storetest.Connect(t, redis.Options{URL: strings.Join(cluster.Addrs(), ","), Timeout: 2 * time.Second})
	require.NoError(t, conn.Ready(t.Context()))
	slots := []string{"0-5460", "5461-10921", "10922-16383"}
	outOfReach := func() []string {
		var f *fault.Error
		if err := conn.Ready(t.Context()); err == nil || !errors.As(err, &f) {
			return nil
		}
		return f.OutOfReach
	}
	requireOutOfReach := func(want string) {
		t.Helper()
		storetest.WaitFor(t, want+" alone to be out of reach", func() bool { // on a busy machine others may be slow, too
			return slices.Equal([]string{want}, outOfReach())
		})
	}
	for i, n := range cluster.Nodes() {
		storetest.Set(t, n, "min-replicas-to-write", "1")
		requireOutOfReach(slots[i])
		require.ErrorContains(t, conn.Ready(t.Context()), "Redis refuses writes: NOREPLICAS")
		storetest.Set(t, n, "min-replicas-to-write", "0")
		storetest.WaitFor(t, "all primaries to be ready", func() bool { return conn.Ready(t.Context()) == nil })
	}
	n := cluster.Nodes()[1]
	n.Pause(t)
	requireOutOfReach(slots[1])
	n.Resume(t)
	storetest.WaitFor(t, "all primaries to be ready", func() bool { return conn.Ready(t.Context()) == nil })
}

// TestReadyWhileItsSlotsMove: a script can't use keys that its call doesn't declare in a slot that is being moved, which
// says nothing about the server.
func TestReadyWhileItsSlotsMove(t *testing.T) {
	t.Parallel()
	c := storetest.StartTwoNodes(t)
	conn := c.Connect(t, redis.Options{})
	require.NoError(t, conn.Ready(t.Context()))
	for _, n := range c.Nodes() {
		keys, err := n.Do(t, "KEYS", "tidemark.ready.*").AsStrSlice()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		slot, err := n.Do(t, "CLUSTER", "KEYSLOT", keys[0]).AsInt64()
		require.NoError(t, err)
		owner, other := c.Sides(t, uint16(slot))
		c.OpenSlot(t, uint16(slot), owner, other)
	}
	require.NoError(t, conn.Ready(t.Context()))
}
