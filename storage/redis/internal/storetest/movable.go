package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// TwoNodes is a private cluster of two primaries, between which tests move slots.
type TwoNodes struct {
	*redistest.ClusterNodes
	Direct rueidis.Client // reaches keys behind a store, on whichever side they are
}

// StartTwoNodes starts the cluster, for one test.
func StartTwoNodes(t *testing.T) TwoNodes {
	t.Helper()
	c := redistest.StartCluster(t, redistest.Options{Primaries: 2, Replicas: -1})
	direct, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(direct.Close)
	return TwoNodes{ClusterNodes: c, Direct: direct}
}

// Connect connects to the cluster.
func (c TwoNodes) Connect(t *testing.T, o redis.Options) *redis.Conn {
	t.Helper()
	o.URL = strings.Join(c.Addrs(), ",")
	return Connect(t, o)
}

// Sides returns the node that has a slot, and the other one.
func (c TwoNodes) Sides(t *testing.T, slot uint16) (owner, other *redistest.Node) {
	t.Helper()
	owner = c.Owner(t, slot)
	for _, n := range c.Nodes() {
		if n != owner {
			other = n
		}
	}
	return owner, other
}

// OpenMove begins to move a channel's slot to the other node.
func (c TwoNodes) OpenMove(t *testing.T, name string) *redistest.SlotMove {
	t.Helper()
	slot := c.SlotOf(name)
	WaitFor(t, "the nodes to know each other's epochs", func() bool { return c.settled(t) })
	owner, other := c.Sides(t, slot)
	return c.OpenSlot(t, slot, owner, other)
}

// settled reports whether both nodes know each other's configuration epoch, and these differ. Otherwise the last owner
// of a slot could take it back from the next one, which didn't know that it must have a higher one.
func (c TwoNodes) settled(t *testing.T) bool {
	t.Helper()
	known := map[string]string{}
	for _, n := range c.Nodes() {
		text, err := n.Do(t, "CLUSTER", "NODES").ToString()
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if epoch, ok := known[fields[0]]; ok && epoch != fields[6] {
				return false
			}
			known[fields[0]] = fields[6]
		}
	}
	epochs := slices.Sorted(maps.Values(known))
	return len(slices.Compact(epochs)) == len(c.Nodes())
}

// Move moves a channel's slot to the other node, a few keys at a time.
func (c TwoNodes) Move(t *testing.T, name string) {
	t.Helper()
	m := c.OpenMove(t, name)
	for m.MoveKeys(t, 2) > 0 {
		continue
	}
	m.CloseSlot(t)
}

// SlotOf returns the slot of the keys that have a name as their hash tag.
func (c TwoNodes) SlotOf(name string) uint16 { return c.Slot("{" + name + "}") }

// SameSlot returns n channel names of the slot of the first one, so that one half moved slot holds many channels. A
// SlotOf is a CRC, which is linear: that of a name is that of its first part with zeros behind it, XOR that of the
// rest.
func (c TwoNodes) SameSlot(first string, n int) []string {
	slot, endings := c.SlotOf(first), map[uint16][]string{}
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for i := range 26 * 26 * 26 {
		ending := string([]byte{letters[i%26], letters[i/26%26], letters[i/676]})
		endings[c.Slot(ending)] = append(endings[c.Slot(ending)], ending)
	}
	names := []string{first}
	for i := 0; len(names) < n; i++ {
		name := first + strconv.Itoa(i)
		for _, ending := range endings[c.Slot(name+"\x00\x00\x00")^slot] {
			names = append(names, name+ending)
		}
	}
	return names[:n]
}

// Dump returns the keys of a slot on both nodes: each key's node, contents and expiry.
func (c TwoNodes) Dump(t *testing.T, slot uint16) map[string]string {
	t.Helper()
	found := map[string]string{}
	for i, n := range c.Nodes() {
		keys, err := n.Do(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(int(slot)), "100000").AsStrSlice()
		require.NoError(t, err)
		for _, key := range keys {
			name := fmt.Sprintf("node %d: %s", i, key)
			found[name] = contents(t, n, key) + " until " + asking(t, n, "PEXPIRETIME", key).String()
		}
	}
	return found
}

// contents returns the contents of a key. Those of a hash don't depend on the order of its fields, which reads can
// change.
func contents(t *testing.T, n *redistest.Node, key string) string {
	t.Helper()
	kind, err := asking(t, n, "TYPE", key).ToString()
	require.NoError(t, err)
	if kind != "hash" {
		return asking(t, n, "DUMP", key).String()
	}
	fields, err := asking(t, n, "HGETALL", key).AsStrMap()
	require.NoError(t, err)
	return fmt.Sprint(fields)
}

// asking runs a command on a node that may be about to get the key's slot.
func asking(t *testing.T, n *redistest.Node, args ...string) *rueidis.RedisMessage {
	t.Helper()
	b := n.Client().B()
	replies := n.Client().DoMulti(t.Context(), b.Arbitrary("ASKING").Build(), b.Arbitrary(args...).Build())
	message, err := replies[1].ToMessage()
	require.NoError(t, err)
	return &message
}
