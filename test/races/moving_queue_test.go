package races_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// movingSlots is a cluster whose slots are moved, one at a time: nodes that move keys to each other at the same time
// deadlock.
type movingSlots struct{ *redistest.ClusterNodes }

// move moves the slot of a hash tag to the node after its owner, a few keys at a time.
func (c movingSlots) move(t *testing.T, a *arena, tag string) {
	t.Helper()
	a.eventually(t, "the nodes to know each other's epochs", func() bool { return c.settled(t) })
	slot := c.Slot("{" + tag + "}")
	owner, nodes := c.Owner(t, slot), c.Nodes()
	c.MoveSlot(t, slot, owner, nodes[(slices.Index(nodes, owner)+1)%len(nodes)])
}

// settled reports whether all nodes know each other's configuration epochs, and these differ. Otherwise the last owner
// of a slot could take it back from the next one.
func (c movingSlots) settled(t *testing.T) bool {
	t.Helper()
	epochs := map[string]string{}
	for _, n := range c.Nodes() {
		text, err := n.Do(t, "CLUSTER", "NODES").ToString()
		require.NoError(t, err)
		for line := range strings.Lines(text) {
			fields := strings.Fields(line)
			if epoch, ok := epochs[fields[0]]; ok && epoch != fields[6] {
				return false
			}
			epochs[fields[0]] = fields[6]
		}
	}
	return len(slices.Compact(slices.Sorted(maps.Values(epochs)))) == len(c.Nodes())
}

// spread returns the number of nodes that have channels of tickets.
func (c movingSlots) spread(t *testing.T, players []*player) int {
	t.Helper()
	nodes := map[*redistest.Node]bool{}
	for _, p := range players[:min(len(players), 50)] {
		nodes[c.Owner(t, c.Slot("{"+matchmaking.ChannelOf(p.id)+"}"))] = true
	}
	return len(nodes)
}

// briefAllocations take some time, so that some matches are always in progress.
func briefAllocations(ctx context.Context, _ *server, _ matchmaking.Proposal) error {
	wait(ctx, time.Duration(rand.Int64N(int64(150*time.Millisecond))))
	return nil
}

// TestMovingQueueLosesNoTicket moves a queue from node to node, and channels of tickets too, while players come and go,
// and servers match them and take the queue from each other.
func TestMovingQueueLosesNoTicket(t *testing.T) {
	t.Parallel()
	const moves = 8
	c := movingSlots{redistest.StartCluster(t, redistest.Options{Replicas: -1})}
	a := newArena(t, urlOf(c.ClusterNodes), definition(t, "duel", `{"pendingTimeout":"1s"}`))
	a.allocate = briefAllocations
	a.start(t, "a")
	a.start(t, "b")
	stopExpiring := a.expireLeases("duel")
	stop := a.arrive(8*time.Millisecond, steady("duel", 3))
	for range moves {
		before := a.arrived()
		a.eventually(t, "players", func() bool { return a.arrived() > before+10 })
		c.move(t, a, "duel")
		c.move(t, a, matchmaking.ChannelOf(a.lastPlayer()))
	}
	stop()
	stopExpiring()
	counts := a.verify(t)
	require.NotZero(t, counts[matchmaking.MatchFound])
	require.NotZero(t, counts[matchmaking.Cancelled])
	require.Equal(t, len(c.Nodes()), c.spread(t, a.players), "the tickets' channels are on all nodes")
}

// TestQueueSurvivesFailovers promotes replicas of the queue's primary while players come and go: first in a switchover,
// which loses nothing, and then after the primary is killed, which may lose writes that were not replicated. Later
// players lose nothing, and every assigned ticket has its message.
func TestQueueSurvivesFailovers(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, redistest.Options{})
	slot := c.Slot("{duel}")
	crowded := func(t *testing.T) *arena {
		t.Helper()
		a := newArena(t, urlOf(c), definition(t, "duel", `{"pendingTimeout":"1s"}`))
		a.allocate = briefAllocations
		a.start(t, "a")
		a.start(t, "b")
		return a
	}
	t.Run("switchover", func(t *testing.T) { //nolint:paralleltest // the next part kills a node
		a := crowded(t)
		stop := a.arrive(15*time.Millisecond, steady("duel", 5))
		for range 2 {
			before := a.arrived()
			a.eventually(t, "players", func() bool { return a.arrived() > before+20 })
			c.Switchover(t, slot)
		}
		stop()
		require.NotZero(t, a.verify(t)[matchmaking.MatchFound])
	})
	t.Run("killed", func(t *testing.T) { //nolint:paralleltest // it kills a node
		a := crowded(t)
		unsure := func(r *rand.Rand) plan {
			p := steady("duel", 5)(r)
			p.unsure = true
			return p
		}
		stop := a.arrive(15*time.Millisecond, unsure)
		a.eventually(t, "players", func() bool { return a.arrived() > 20 })
		c.Failover(t, slot)
		stop()
		a.settle(t)
		a.crowd(60, 5*time.Millisecond, steady("duel", 5))
		require.NotZero(t, a.verify(t)[matchmaking.MatchFound])
	})
}
