package redistest_test

import (
	"fmt"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestClusterServesAllSlots(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	require.Same(t, c, redistest.Cluster(t))
	require.Len(t, c.Addrs(), 6)
	client := dialCluster(t, c)
	prefix := redistest.Prefix(t)
	for i := range 100 {
		key := fmt.Sprint(prefix, i)
		require.NoError(t, client.Do(t.Context(), client.B().Set().Key(key).Value("v").Build()).Error())
		want, err := c.Nodes()[0].Do(t, "CLUSTER", "KEYSLOT", key).ToInt64()
		require.NoError(t, err)
		require.EqualValues(t, want, c.Slot(key))
		require.Error(t, c.Replica(t, c.Slot(key)).Do(t, "SET", key, "v").Error())
		require.NoError(t, c.Owner(t, c.Slot(key)).Do(t, "GET", key).Error())
	}
}

func TestSlotOfHashTag(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	for _, key := range []string{"", "a", "{}", "{}a", "x{a}y", "x{a}{b}", "{a", "a}", "x{{a}}"} {
		want, err := c.Nodes()[0].Do(t, "CLUSTER", "KEYSLOT", key).ToInt64()
		require.NoError(t, err)
		require.EqualValues(t, want, c.Slot(key), "key %q", key)
	}
}

func TestSlotMovesInSteps(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{Password: "secret", Replicas: -1})
	client := dialCluster(t, c)
	keys := []string{"{tag}1", "{tag}2", "{tag}3"}
	for _, key := range keys {
		require.NoError(t, client.Do(t.Context(), client.B().Set().Key(key).Value(key).Build()).Error())
	}
	slot := c.Slot(keys[0])
	from := c.Owner(t, slot)
	to := otherPrimary(t, c, from)

	m := c.OpenSlot(t, slot, from, to)
	require.Equal(t, 1, m.MoveKeys(t, 1))
	require.Same(t, from, c.Owner(t, slot))
	err := from.Do(t, append([]string{"MGET"}, keys...)...).Error()
	require.ErrorContains(t, err, "TRYAGAIN", "the slot must be half moved")
	m.CloseSlot(t)
	require.Same(t, to, c.Owner(t, slot))
	values, err := to.Do(t, append([]string{"MGET"}, keys...)...).AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, keys, values)

	c.MoveSlot(t, slot, to, from)
	require.Same(t, from, c.Owner(t, slot))
	values, err = from.Do(t, append([]string{"MGET"}, keys...)...).AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, keys, values)
}

func TestFailoverPromotesTheReplica(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	const slot = 100
	replica := c.Replica(t, slot)
	killed, promoted := c.Failover(t, slot)
	require.Same(t, replica, promoted)
	require.Same(t, promoted, c.Owner(t, slot))

	killed.Restart(t)
	c.AwaitOK(t)
	require.Same(t, killed, c.Replica(t, slot))
	old, again := c.Switchover(t, slot)
	require.Same(t, promoted, old)
	require.Same(t, killed, again)
}

func TestClusterWithTLS(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{TLS: true, Username: "alice", Password: "secret"})
	client := dialCluster(t, c)
	require.NoError(t, client.Do(t.Context(), client.B().Set().Key("k").Value("v").Build()).Error())
	slot := c.Slot("k")
	from := c.Owner(t, slot)
	to := otherPrimary(t, c, from)
	c.MoveSlot(t, slot, from, to)
	require.NoError(t, to.Do(t, "GET", "k").Error())
}

// otherPrimary returns a node other than n that was started as a primary.
func otherPrimary(t *testing.T, c *redistest.ClusterNodes, n *redistest.Node) *redistest.Node {
	t.Helper()
	if first := c.Nodes()[0]; first != n {
		return first
	}
	return c.Nodes()[1]
}

func dialCluster(t *testing.T, c *redistest.ClusterNodes) rueidis.Client {
	t.Helper()
	o, err := rueidis.ParseURL(c.Nodes()[0].URL())
	require.NoError(t, err)
	o.InitAddress, o.DisableCache = c.Addrs(), true
	o.TLSConfig = c.Nodes()[0].TLSConfig()
	client, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}
