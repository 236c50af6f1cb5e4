package redistest

import (
	"context"
	"fmt"
	"testing"
)

// Failover kills the primary of a slot with SIGKILL and waits until a replica of it is promoted and all
// running nodes know. Writes that hadn't reached the replica are lost. The killed node can be restarted, and
// becomes a replica then.
func (c *ClusterNodes) Failover(t testing.TB, slot uint16) (killed, promoted *Node) {
	t.Helper()
	killed = c.Owner(t, slot)
	killed.Kill(t)
	promoted = c.awaitPromotion(t, slot, killed)
	c.AwaitOK(t)
	return killed, promoted
}

// FailoverThatLoses is Failover, where the replica gets nothing of what is written during write.
func (c *ClusterNodes) FailoverThatLoses(t testing.TB, slot uint16, write func()) (killed, promoted *Node) {
	t.Helper()
	killed = c.Owner(t, slot)
	replica := c.Replica(t, slot)
	replica.Pause(t)
	if err := killed.Do(t, "CLIENT", "KILL", "TYPE", "replica").Error(); err != nil {
		t.Fatalf("redistest: cut the replica of slot %d off: %v", slot, err)
	}
	write()
	killed.Kill(t)
	replica.Resume(t)
	promoted = c.awaitPromotion(t, slot, killed)
	c.AwaitOK(t)
	return killed, promoted
}

// Switchover makes a replica of a slot's primary take over in good order, losing nothing: the old primary
// becomes its replica.
func (c *ClusterNodes) Switchover(t testing.TB, slot uint16) (old, promoted *Node) {
	t.Helper()
	old = c.Owner(t, slot)
	if err := c.Replica(t, slot).Do(t, "CLUSTER", "FAILOVER").Error(); err != nil {
		t.Fatalf("redistest: switch slot %d over: %v", slot, err)
	}
	promoted = c.awaitPromotion(t, slot, old)
	c.AwaitOK(t)
	return old, promoted
}

func (c *ClusterNodes) awaitPromotion(t testing.TB, slot uint16, old *Node) *Node {
	t.Helper()
	var promoted *Node
	await(t, fmt.Sprintf("slot %d to be taken over from %s", slot, old.Addr()), func(ctx context.Context) error {
		owner, err := c.owner(ctx, slot)
		if err != nil {
			return err
		}
		if owner == old {
			return fmt.Errorf("%s still owns it", old.Addr())
		}
		promoted = owner
		return nil
	})
	return promoted
}
