package shards_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/layout"
	"github.com/tidemark-dev/tidemark/test/proxy"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/shardtest"
)

// TestReadersNoticeNothing disturbs three data centres of four shards, with two spare nodes each, in one way after
// another.
func TestReadersNoticeNothing(t *testing.T) {
	t.Parallel()
	f := newTier(t, redistest.Standalone(t))
	dcs := []string{"a", "b", "c"}
	for _, dc := range dcs {
		f.split(t, dc, 4)
		f.Add(t, dc, 6)
	}
	f.All().Start(t)
	f.AwaitWhole(t, dcs...)
	var all shard.StaticHosts
	for _, n := range f.All() {
		all = append(all, shard.Host{Address: n.Address(), DC: n.DC})
	}
	var load shardtest.Loads
	for _, o := range []shard.ClientOptions{
		{},
		{LocalDC: "a", MaxHedge: 50 * time.Millisecond, MaxLate: 100},
		{Hosts: all, PingRate: 100, SkipPings: true},
	} {
		o.Timeout = time.Hour // A Get that waited for an unresponsive node would take this long.
		load = append(load, f.connect(t, o).load(t))
	}
	load.Await(t, 20)
	for _, c := range []struct { //nolint:paralleltest // one after the other
		name    string
		disturb func(*testing.T)
	}{
		{"a node is killed", func(t *testing.T) {
			killed := f.Holder(t, "a", 1)
			f.AwaitNext(t, "a", 1, func() { killed.Kill(t) })
			load.Await(t, 20)
			killed.Start(t)
		}},
		{"a node is stopped", func(t *testing.T) {
			stopped := f.Holder(t, "b", 2)
			f.AwaitNext(t, "b", 2, func() {
				stopped.Signal(t, syscall.SIGSTOP)
				load.Await(t, 20)
			})
			load.Await(t, 20)
			stopped.Signal(t, syscall.SIGCONT)
		}},
		{"a data centre answers two seconds late", func(t *testing.T) {
			f.DC("c").Delay(2 * time.Second)
			load.Await(t, 30)
		}},
		{"a data centre never answers", func(t *testing.T) {
			for _, dc := range dcs {
				f.DC(dc).Hold()
				load.Await(t, 20)
				f.DC(dc).Pass()
			}
		}},
		{"a data centre never answers, and another loses a node", func(t *testing.T) {
			f.DC("a").Hold()
			killed := f.Holder(t, "c", 0)
			killed.Kill(t)
			load.Await(t, 20)
			killed.Start(t)
		}},
		{"answers of a data centre are lost", func(t *testing.T) {
			for _, n := range f.DC("b") {
				n.Proxy.Hold(proxy.ToClient)
			}
			load.Await(t, 30)
			f.DC("b").Cut()
		}},
		{"all connections break", func(t *testing.T) {
			for range 5 {
				f.All().Cut()
				load.Await(t, 10)
			}
		}},
		{"the nodes of a data centre are restarted", func(t *testing.T) {
			f.DC("a").Restart(t)
			load.Await(t, 20)
		}},
		{"four shards become six, and a data centre never answers", func(t *testing.T) {
			f.DC("c").Hold()
			f.reshard(t, 6)
		}},
		{"six shards become four", func(t *testing.T) { f.reshard(t, 4) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.disturb(t)
			f.All().Pass()
			f.AwaitWhole(t, dcs...)
			load.Await(t, 20)
		})
	}
}

// reshard splits all data centres again.
func (f *tier) reshard(t *testing.T, shardCount int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	plan := layout.Plan{Cache: "numbers", Starts: shard.Even(shardCount), Settle: 5 * pingPeriod, Poll: pingPeriod / 4}
	require.NoError(t, layout.Change(ctx, f.store, plan, func(p layout.Progress) { t.Log(p.DC, p.Step) }))
}
