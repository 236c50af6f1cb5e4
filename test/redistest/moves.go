package redistest

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/tidemark-dev/tidemark/test/proxy"
)

// Forward starts a proxy whose address stands for a name that is moved to other servers, until the test ends.
func Forward(t testing.TB, n *Node) *proxy.Proxy {
	t.Helper()
	ctx, background := lifetime(t)
	p, err := proxy.New(ctx, n.Addr())
	if err != nil {
		t.Fatalf("redistest: forward to %s: %v", n.Addr(), err)
	}
	background(p.Run)
	return p
}

// SwitchOver makes a replica the primary of its primary, which stays up, without losing a write.
func SwitchOver(t testing.TB, primary, replica *Node) {
	t.Helper()
	await(t, "the primary to take the replica for online", func(ctx context.Context) error {
		return primary.do(ctx, "FAILOVER", "TO", loopback, strconv.Itoa(replica.Port())).Error()
	})
	await(t, "the replica to be the primary", func(ctx context.Context) error {
		return errors.Join(primary.expect(ctx, "replication", "role", "slave"),
			replica.expect(ctx, "replication", "role", "master"))
	})
}
