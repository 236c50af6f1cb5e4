package shards

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
)

func TestAVersionGetsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &dcHosts{version: "1 0", read: time.Now()}
		<-time.After(fresh)
		require.Equal(t, "1 0", d.known())
		<-time.After(time.Nanosecond)
		require.Empty(t, d.known(), "claims may have ended by themselves")
	})
}

// Nodes whose claims ended while Redis was unreachable are listed until they have had time to claim again.
func TestKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, y, z := shard.Host{Address: "x:1"}, shard.Host{Address: "y:1"}, shard.Host{Address: "z:1"}
		all := func(hosts ...shard.Host) []shard.Host { return hosts }
		var k kept
		k.fail()
		require.Equal(t, all(x, y), k.add(all(x, y)), "there were none")
		<-time.After(recovery)
		require.Equal(t, all(x), k.add(all(x)), "no failure")
		require.Equal(t, all(x, y), k.add(all(x, y)))
		<-time.After(time.Hour)
		k.fail()
		k.fail()
		require.Equal(t, all(x, y), k.add(nil))
		<-time.After(recovery / 2)
		require.Equal(t, all(z, x, y), k.add(all(z, x)))
		<-time.After(recovery / 2)
		require.Equal(t, all(z, x), k.add(all(z, x)))
	})
}
