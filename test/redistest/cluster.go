package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
)

// slotCount is the number of slots of every Redis Cluster.
const slotCount = 16384

// ClusterNodes is a Redis Cluster with a node timeout of one second. It requires full coverage: while a slot has no
// primary, all nodes answer CLUSTERDOWN.
type ClusterNodes struct {
	nodes []*Node // the first primaries, then their replicas
}

// StartCluster starts a private cluster, which is stopped when the test ends. It returns when all nodes agree on the
// slots and all replicas are in sync.
func StartCluster(t testing.TB, o Options) *ClusterNodes {
	t.Helper()
	c, err := launchCluster(t.Context(), o, false)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	for _, n := range c.nodes {
		n.closeAtEnd(t)
	}
	return c
}

// OpenCluster is StartCluster for programs other than tests: Close stops the cluster.
func OpenCluster(ctx context.Context, o Options) (*ClusterNodes, error) {
	return launchCluster(ctx, o, false)
}

// Close stops the nodes and removes their files.
func (c *ClusterNodes) Close() error { return c.close() }

// launchCluster starts the nodes and joins them.
func launchCluster(ctx context.Context, o Options, shared bool) (*ClusterNodes, error) {
	if o.Primaries == 0 {
		o.Primaries = 3
	}
	if o.Replicas == 0 {
		o.Replicas = 1
	}
	s := spec{opts: o, shared: shared, args: []string{
		"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "1000",
		"--cluster-replica-validity-factor", "0", "--cluster-allow-replica-migration", "no",
	}}
	c := &ClusterNodes{nodes: make([]*Node, o.Primaries*(1+max(o.Replicas, 0)))}
	if err := c.launchNodes(ctx, s); err != nil {
		return nil, errors.Join(fmt.Errorf("start a cluster: %w", err), c.close())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startLimit)
	defer cancel()
	if err := c.form(ctx, o.Primaries); err != nil {
		return nil, errors.Join(fmt.Errorf("form a cluster: %w", err), c.close())
	}
	return c, nil
}

// launchNodes starts the first node, whose certificates the others share, and then the others.
func (c *ClusterNodes) launchNodes(ctx context.Context, s spec) (err error) {
	if c.nodes[0], err = launch(ctx, s); err != nil {
		return err
	}
	s.certs = c.nodes[0].certs
	var g errgroup.Group
	for i := 1; i < len(c.nodes); i++ {
		g.Go(func() (err error) {
			c.nodes[i], err = launch(ctx, s)
			return err
		})
	}
	return g.Wait()
}

// form assigns slots and epochs, makes the nodes meet each other, and makes those after the primaries replicas.
func (c *ClusterNodes) form(ctx context.Context, primaries int) error {
	for i, n := range c.nodes {
		if err := n.do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)).Error(); err != nil {
			return fmt.Errorf("set the epoch of %s: %w", n.Addr(), err)
		}
		if i < primaries {
			first, last := i*slotCount/primaries, (i+1)*slotCount/primaries-1
			err := n.do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)).Error()
			if err != nil {
				return fmt.Errorf("give slots to %s: %w", n.Addr(), err)
			}
		}
	}
	for _, n := range c.nodes[1:] {
		if err := c.nodes[0].do(ctx, "CLUSTER", "MEET", loopback, strconv.Itoa(n.Port())).Error(); err != nil {
			return fmt.Errorf("make %s join: %w", n.Addr(), err)
		}
	}
	if err := poll(ctx, c.checkAcquainted); err != nil {
		return err
	}
	for i, replica := range c.nodes[primaries:] {
		primary := c.nodes[i%primaries]
		if err := replicate(ctx, replica, primary); err != nil {
			return err
		}
	}
	return poll(ctx, c.checkOK)
}

func replicate(ctx context.Context, replica, primary *Node) error {
	id, err := primary.do(ctx, "CLUSTER", "MYID").ToString()
	if err != nil {
		return fmt.Errorf("read the ID of %s: %w", primary.Addr(), err)
	}
	if err := replica.do(ctx, "CLUSTER", "REPLICATE", id).Error(); err != nil {
		return fmt.Errorf("make %s a replica: %w", replica.Addr(), err)
	}
	return nil
}

// close stops all nodes and removes their files.
func (c *ClusterNodes) close() error {
	var errs []error
	for _, n := range c.nodes {
		if n != nil {
			errs = append(errs, n.close())
		}
	}
	return errors.Join(errs...)
}

// Nodes returns all nodes: first those that were started as primaries, then their replicas in the same order.
func (c *ClusterNodes) Nodes() []*Node { return slices.Clone(c.nodes) }

// Addrs returns host:port of all nodes.
func (c *ClusterNodes) Addrs() []string { return addrs(c.nodes) }

func addrs(nodes []*Node) []string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.Addr()
	}
	return all
}

// running returns the nodes whose process exists.
func (c *ClusterNodes) running() []*Node {
	return slices.DeleteFunc(c.Nodes(), func(n *Node) bool { return !n.proc.Alive() })
}

// AwaitOK returns when all running nodes know each other, agree on the owner of each slot, and all replicas are in
// sync. No node may be paused.
func (c *ClusterNodes) AwaitOK(t testing.TB) {
	t.Helper()
	await(t, "the cluster to be consistent", c.checkOK)
}

// Owner returns the primary that serves a slot.
func (c *ClusterNodes) Owner(t testing.TB, slot uint16) *Node {
	t.Helper()
	return awaitNode(t, fmt.Sprintf("slot %d to have an owner", slot), func(ctx context.Context) (*Node, error) {
		return c.owner(ctx, slot)
	})
}

// Replica returns a running replica of the node that serves a slot.
func (c *ClusterNodes) Replica(t testing.TB, slot uint16) *Node {
	t.Helper()
	return awaitNode(t, fmt.Sprintf("slot %d to have a replica", slot), func(ctx context.Context) (*Node, error) {
		return c.replica(ctx, slot)
	})
}

// awaitNode waits until find succeeds, and returns what it found.
func awaitNode(t testing.TB, what string, find func(context.Context) (*Node, error)) (n *Node) {
	t.Helper()
	await(t, what, func(ctx context.Context) (err error) {
		n, err = find(ctx)
		return err
	})
	return n
}

// Failover kills the primary of a slot with SIGKILL and waits until its replica is promoted and all running nodes know
// that. Writes that had not reached the replica are lost. The killed node becomes a replica when it is restarted.
func (c *ClusterNodes) Failover(t testing.TB, slot uint16) (killed, promoted *Node) {
	t.Helper()
	killed = c.Owner(t, slot)
	killed.Kill(t)
	promoted = c.awaitPromotion(t, slot, killed)
	c.AwaitOK(t)
	return killed, promoted
}

// FailoverThatLoses is Failover after a call of write, whose writes don't reach the replica. All earlier ones do.
func (c *ClusterNodes) FailoverThatLoses(t testing.TB, slot uint16, write func()) (killed, promoted *Node) {
	t.Helper()
	killed = c.Owner(t, slot)
	replica := c.Replica(t, slot)
	written := int(killed.Number(t, "replication", "master_repl_offset"))
	await(t, "the replica of slot "+strconv.Itoa(int(slot))+" to have all writes", func(context.Context) error {
		if has := int(replica.Number(t, "replication", "slave_repl_offset")); has < written {
			return fmt.Errorf("it has %d of %d bytes", has, written)
		}
		return nil
	})
	replica.Pause(t)
	if err := killed.Do(t, "CLIENT", "KILL", "TYPE", "replica").Error(); err != nil {
		t.Fatalf("redistest: disconnect the replica of slot %d: %v", slot, err)
	}
	write()
	killed.Kill(t)
	replica.Resume(t)
	promoted = c.awaitPromotion(t, slot, killed)
	c.AwaitOK(t)
	return killed, promoted
}

// Switchover promotes a replica of a slot's primary without loss. The old primary becomes its replica.
func (c *ClusterNodes) Switchover(t testing.TB, slot uint16) (old, promoted *Node) {
	t.Helper()
	old = c.Owner(t, slot)
	if err := c.Replica(t, slot).Do(t, "CLUSTER", "FAILOVER").Error(); err != nil {
		t.Fatalf("redistest: start the switchover of slot %d: %v", slot, err)
	}
	promoted = c.awaitPromotion(t, slot, old)
	c.AwaitOK(t)
	return old, promoted
}

func (c *ClusterNodes) awaitPromotion(t testing.TB, slot uint16, old *Node) *Node {
	t.Helper()
	what := fmt.Sprintf("another node than %s to own slot %d", old.Addr(), slot)
	return awaitNode(t, what, func(ctx context.Context) (*Node, error) {
		owner, err := c.owner(ctx, slot)
		if err == nil && owner == old {
			err = fmt.Errorf("%s still owns it", old.Addr())
		}
		return owner, err
	})
}
