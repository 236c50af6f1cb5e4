package redistest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
)

// slotCount is the number of slots of every Redis Cluster.
const slotCount = 16384

// ClusterNodes is a Redis Cluster of local processes, with a node timeout of one second and full coverage
// required: while a slot has no primary, all of them answer CLUSTERDOWN.
type ClusterNodes struct {
	nodes []*Node // the first primaries, then their replicas, as started
}

// StartCluster starts a private cluster, which is stopped when the test ends. It returns when all nodes agree
// on the slots and all replicas are in sync.
func StartCluster(t testing.TB, o Options) *ClusterNodes {
	t.Helper()
	c, err := launchCluster(t.Context(), o, false)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	for _, n := range c.nodes {
		closeAtEnd(t, n)
	}
	return c
}

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
	if c.nodes[0], err = launchNew(ctx, s); err != nil {
		return err
	}
	s.certs = c.nodes[0].certs
	var g errgroup.Group
	for i := 1; i < len(c.nodes); i++ {
		g.Go(func() (err error) {
			c.nodes[i], err = launchNew(ctx, s)
			return err
		})
	}
	return g.Wait()
}

// form hands out slots and epochs, introduces the nodes to each other, and makes the rest replicas.
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
		if err := c.nodes[0].do(ctx, "CLUSTER", "MEET", n.host, strconv.Itoa(n.port)).Error(); err != nil {
			return fmt.Errorf("introduce %s: %w", n.Addr(), err)
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

// close ends all nodes for good.
func (c *ClusterNodes) close() error {
	var errs []error
	for _, n := range c.nodes {
		if n != nil {
			errs = append(errs, n.close())
		}
	}
	return errors.Join(errs...)
}

// Nodes returns all nodes: the primaries as the cluster was started, then the replicas in the same order.
func (c *ClusterNodes) Nodes() []*Node { return append([]*Node{}, c.nodes...) }

// Addrs returns host:port of all nodes.
func (c *ClusterNodes) Addrs() []string {
	addrs := make([]string, 0, len(c.nodes))
	for _, n := range c.nodes {
		addrs = append(addrs, n.Addr())
	}
	return addrs
}

// running returns the nodes whose process is there.
func (c *ClusterNodes) running() []*Node {
	var nodes []*Node
	for _, n := range c.nodes {
		if n.proc.Alive() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// AwaitOK returns when all nodes that run know all others, agree on who owns which slot, and all replicas are
// in sync. All of them must be able to answer: none may be paused.
func (c *ClusterNodes) AwaitOK(t testing.TB) {
	t.Helper()
	await(t, "the cluster to be well", c.checkOK)
}

// Owner returns the node that serves a slot as a primary.
func (c *ClusterNodes) Owner(t testing.TB, slot uint16) *Node {
	t.Helper()
	var owner *Node
	await(t, fmt.Sprintf("slot %d to have an owner", slot), func(ctx context.Context) (err error) {
		owner, err = c.owner(ctx, slot)
		return err
	})
	return owner
}

// Replica returns a running replica of the node that serves a slot.
func (c *ClusterNodes) Replica(t testing.TB, slot uint16) *Node {
	t.Helper()
	var replica *Node
	await(t, fmt.Sprintf("slot %d to have a replica", slot), func(ctx context.Context) (err error) {
		replica, err = c.replica(ctx, slot)
		return err
	})
	return replica
}
