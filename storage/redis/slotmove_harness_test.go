package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/receipt"
)

// reader is the subscriber that the channels of these tests have.
const reader = "reader"

// TestSlotMove is what happens to channels whose slots move between two nodes. Its parts come one after the other:
// nodes that move keys to each other at the same time wait for each other in vain.
func TestSlotMove(t *testing.T) {
	t.Parallel()
	c := startTwoNodes(t)
	for _, part := range []struct { //nolint:paralleltest // see above
		name string
		test func(*testing.T, twoNodes)
	}{
		{"fetch with every subset moved", fetchWithEverySubsetMoved},
		{"fetch of nobody", fetchOfNobody},
		{"publish never half writes", publishNeverHalfWrites},
		{"publish of duplicates", publishOfDuplicates},
		{"other operations", otherOperations},
		{"nodes disagree", nodesDisagree},
		{"listen", listenAcrossMoves},
		{"listen from the middle", listenFromTheMiddle},
		{"under load", underLoad},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, c) })
	}
}

// twoNodes is a private cluster of two primaries, between which tests move slots.
type twoNodes struct {
	*redistest.ClusterNodes
	direct rueidis.Client // reaches keys behind a store, on whichever side they are
}

func startTwoNodes(t *testing.T) twoNodes {
	t.Helper()
	c := redistest.StartCluster(t, redistest.Options{Primaries: 2, Replicas: -1})
	direct, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: c.Addrs(), DisableCache: true})
	require.NoError(t, err)
	t.Cleanup(direct.Close)
	return twoNodes{ClusterNodes: c, direct: direct}
}

// open opens a store on the cluster.
func (c twoNodes) open(t *testing.T, o Options) *Store {
	t.Helper()
	o.URL = strings.Join(c.Addrs(), ",")
	return openAt(t, o)
}

// sides gives the node that has a slot, and the other one.
func (c twoNodes) sides(t *testing.T, slot uint16) (owner, other *redistest.Node) {
	t.Helper()
	owner = c.Owner(t, slot)
	for _, n := range c.Nodes() {
		if n != owner {
			other = n
		}
	}
	return owner, other
}

// openMove begins to move a channel's slot to the other node.
func (c twoNodes) openMove(t *testing.T, name string) *redistest.SlotMove {
	t.Helper()
	slot := c.slot(name)
	waitFor(t, "the nodes to know each other's epochs", func() bool { return c.settled(t) })
	owner, other := c.sides(t, slot)
	return c.OpenSlot(t, slot, owner, other)
}

// settled tells whether both nodes know each other's configuration epoch, and these differ. Otherwise the last owner
// of a slot could take it back from the next one, which didn't know that it must have a higher one.
func (c twoNodes) settled(t *testing.T) bool {
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

// move moves a channel's slot to the other node, a few keys at a time.
func (c twoNodes) move(t *testing.T, name string) {
	t.Helper()
	m := c.openMove(t, name)
	for m.MoveKeys(t, 2) > 0 {
		continue
	}
	m.CloseSlot(t)
}

func (c twoNodes) slot(name string) uint16 { return c.Slot("{" + name + "}") }

// sameSlot gives n channel names of the slot of the first one, so that one half moved slot holds many channels. A
// slot is a CRC, which is linear: that of a name is that of its first part with zeros behind it, XOR that of the rest.
func (c twoNodes) sameSlot(first string, n int) []string {
	slot, endings := c.slot(first), map[uint16][]string{}
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

// dump gives all that both nodes hold of a slot: each key's node, contents and end.
func (c twoNodes) dump(t *testing.T, slot uint16) map[string]string {
	t.Helper()
	found := map[string]string{}
	for i, n := range c.Nodes() {
		keys, err := n.Do(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(int(slot)), "100000").AsStrSlice()
		require.NoError(t, err)
		for _, key := range keys {
			name := fmt.Sprintf("node %d: %s", i, key)
			found[name] = asking(t, n, "DUMP", key) + " until " + asking(t, n, "PEXPIRETIME", key)
		}
	}
	return found
}

// asking runs a command on a node that may be about to get the key's slot.
func asking(t *testing.T, n *redistest.Node, args ...string) string {
	t.Helper()
	b := n.Client().B()
	replies := n.Client().DoMulti(t.Context(), b.Arbitrary("ASKING").Build(), b.Arbitrary(args...).Build())
	message, err := replies[1].ToMessage()
	require.NoError(t, err)
	return message.String()
}

// lore is what a channel of these tests is like before its slot is moved.
type lore struct {
	start    clock.Clock // the channel's clock before the first message
	messages int
	gone     []int // messages that have expired, counted from 1
	keeps    int   // Policy.MaxMessages while it is read
	max      int   // of a fetch; 0: 10
}

func (l lore) policy() channel.Policy {
	return channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000, MaxMessages: l.keeps}
}

func (l lore) fetch(name string) channel.FetchRequest {
	r := channel.FetchRequest{Channel: name, Subscriber: reader, Max: l.max, MaxBytes: 1 << 20, Policy: l.policy()}
	if r.Max == 0 {
		r.Max = 10
	}
	return r
}

// make makes the channel, with a subscriber before its first message.
func (l lore) make(t *testing.T, s *Store, direct rueidis.Client, name string) {
	t.Helper()
	ctx, policy := t.Context(), channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000}
	_, err := s.Subscribe(ctx, channel.SubscribeRequest{Channel: name, Subscriber: reader, Policy: policy})
	require.NoError(t, err)
	ch := s.channel(name)
	if l.start != 0 {
		for _, key := range []string{ch.clock(), ch.mark(reader)} {
			set := direct.B().Set().Key(key).Value(l.start.String()).Xx().Keepttl().Build()
			require.NoError(t, direct.Do(ctx, set).Error())
		}
	}
	drafts := make([]channel.Draft, l.messages)
	for i := range drafts {
		drafts[i] = channel.Draft{ID: "m" + strconv.Itoa(i+1), Content: []byte(`{"n":` + strconv.Itoa(i+1) + `}`)}
	}
	_, err = s.Publish(ctx, channel.PublishRequest{Channel: name, Drafts: drafts, Policy: policy})
	require.NoError(t, err)
	for _, n := range l.gone {
		del := direct.B().Del().Key(ch.message(l.start.Add(uint64(n)))).Build()
		require.NoError(t, direct.Do(ctx, del).Error())
	}
}

// parts gives the channel's keys that reading touches.
func (l lore) parts(s *Store, name string) []string {
	ch := s.channel(name)
	keys := ch.forSubscriber(reader)
	for n := 1; n <= l.messages; n++ {
		gone := false
		for _, g := range l.gone {
			gone = gone || g == n
		}
		if !gone {
			keys = append(keys, ch.message(l.start.Add(uint64(n))))
		}
	}
	return keys
}

// receiptOf gives the receipt that a batch stands for.
func receiptOf(name string, b channel.Batch) receipt.Receipt {
	r := receipt.Receipt{Channel: name, Subscriber: reader, Epoch: b.Epoch, Clock: b.Through}
	if n := len(b.Messages); n > 0 && b.Messages[n-1].Clock == b.Through {
		r.MessageID = b.Messages[n-1].ID
	}
	return r
}

// one is a request to publish one message.
func one(name, id string) channel.PublishRequest {
	return channel.PublishRequest{
		Channel: name, Drafts: []channel.Draft{{ID: id, Content: []byte(`{"of":"` + id + `"}`)}},
		Policy: channel.Policy{TTL: time.Hour, MaxMessageBytes: 1000},
	}
}

// shortly gives a context whose deadline is near, for calls that can't succeed.
func shortly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// requireUnavailable expects the answer to a call that can be made again a little later.
func requireUnavailable(t testing.TB, err error, about ...any) {
	t.Helper()
	require.ErrorIs(t, err, fault.ErrUnavailable, about...)
	var told *fault.Error
	require.ErrorAs(t, err, &told, about...)
	require.NotZero(t, told.RetryAfter, about...)
}

// counted gives the sum of a counter over its labels.
func counted(t testing.TB, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// waitFor looks again and again until what is waited for is there. It gives up only where a test would hang.
func waitFor(t testing.TB, what string, there func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !there() {
		select {
		case <-tick.C:
		case <-limit:
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}
