// Package shardrig runs the nodes of a sharded read tier for tests: each is a process behind a TCP proxy, whose address it
// advertises, so that nothing reaches it in another way. Nodes kills, stops and restarts them, and disturbs their connections.
// Load reads all the while, and fails the test if a read does.
//
// Readiness is seen in the status of the cache, which the storage keeps, and never waited for by time.
package shardrig

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/process"
	"github.com/tidemark-dev/tidemark/internal/proxy"
	"github.com/tidemark-dev/tidemark/shard"
)

// Options describes a rig.
type Options struct {
	Cache   string
	Layouts shard.Layouts
	// Command returns the program of a node: its path, arguments and environment. It serves behind n.Address().
	Command func(n *Node) (path string, args, env []string)
	// Listening finds the address on which the program listens in what it prints.
	Listening *regexp.Regexp
}

// Rig is the nodes of one cache.
type Rig struct {
	o       Options
	nodes   Nodes
	dir     string          // of logs
	ctx     context.Context //nolint:containedctx // of the proxies
	proxies sync.WaitGroup
}

// Node is one process, which can be started again.
type Node struct {
	DC, Host string
	Process  *process.Process
	Proxy    *proxy.Proxy
	Listens  string // address of the process behind the proxy, which a test may give to the proxy of another node

	listening *regexp.Regexp
}

// Nodes are some nodes of a rig. What is done to them is done to each.
type Nodes []*Node

const (
	patience = time.Minute // ends a test that would hang
	step     = 10 * time.Millisecond
)

// New returns a rig without nodes. Those that are added end with the test, after the loads that it starts later.
func New(t testing.TB, o Options) *Rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &Rig{o: o, ctx: ctx, dir: t.TempDir()} // the folder is removed after the processes have ended
	t.Cleanup(func() {
		for _, n := range r.nodes {
			if err := n.Process.End(syscall.SIGKILL); err != nil {
				t.Errorf("shardrig: end %s: %v", n.Host, err)
			}
			if t.Failed() && n.Process.PID() != 0 {
				t.Logf("shardrig: log of %s:\n%s", n.Host, process.LastLines(n.Process.Log(), 30))
			}
		}
		cancel()
		r.proxies.Wait()
	})
	return r
}

// Add makes nodes of a data centre, with a proxy each, that aren't started. Their hosts are named after the data centre and a
// number.
func (r *Rig) Add(t testing.TB, dc string, n int) Nodes {
	t.Helper()
	var added Nodes
	for range n {
		added = append(added, r.AddHost(t, dc, fmt.Sprintf("%s-%d", dc, len(r.DC(dc)))))
	}
	return added
}

// AddHost makes a node as Add does.
func (r *Rig) AddHost(t testing.TB, dc, host string) *Node {
	t.Helper()
	tcp, err := proxy.New(r.ctx, "127.0.0.1:1") // until the process listens
	if err != nil {
		t.Fatalf("shardrig: start a proxy: %v", err)
	}
	r.proxies.Go(func() { tcp.Run(r.ctx) })
	one := &Node{DC: dc, Host: host, Proxy: tcp, listening: r.o.Listening}
	one.Process = &process.Process{Dir: r.dir, LogName: fmt.Sprintf("%d.log", len(r.nodes))}
	one.Process.Program, one.Process.Args, one.Process.Env = r.o.Command(one)
	r.nodes = append(r.nodes, one)
	return one
}

// All returns all nodes.
func (r *Rig) All() Nodes { return slices.Clone(r.nodes) }

// DC returns the nodes of a data centre.
func (r *Rig) DC(dc string) Nodes {
	return slices.DeleteFunc(r.All(), func(n *Node) bool { return n.DC != dc })
}

// Holder returns the node that holds a shard of a data centre.
func (r *Rig) Holder(t testing.TB, dc string, number int) Nodes {
	t.Helper()
	state := r.status(t, dc)
	for _, n := range r.DC(dc) {
		if number < len(state.Shards) && n.Address() == state.Shards[number].Address {
			return Nodes{n}
		}
	}
	t.Fatalf("shardrig: nobody holds shard %d of %s: %+v", number, dc, state)
	return nil
}

// status returns the state of a data centre, zero if the cache has none of the name.
func (r *Rig) status(t testing.TB, dc string) shard.DC {
	t.Helper()
	all, err := r.o.Layouts.Status(t.Context(), r.o.Cache)
	if err != nil {
		t.Fatalf("shardrig: read the status: %v", err)
	}
	for _, one := range all {
		if one.Name == dc {
			return one
		}
	}
	return shard.DC{}
}

// Await waits until a data centre is in a state.
func (r *Rig) Await(t testing.TB, dc string, reached func(shard.DC) bool) {
	t.Helper()
	await(t, func() error {
		if state := r.status(t, dc); !reached(state) {
			return fmt.Errorf("the state of data centre %s is %+v", dc, state)
		}
		return nil
	})
}

// AwaitWhole waits until all shards of data centres are held and loaded.
func (r *Rig) AwaitWhole(t testing.TB, dcs ...string) {
	t.Helper()
	for _, dc := range dcs {
		r.Await(t, dc, shard.DC.Whole)
	}
}

// AwaitNext returns when another node than before has loaded a shard, and the data centre is whole.
func (r *Rig) AwaitNext(t testing.TB, dc string, number int, disturb func()) {
	t.Helper()
	before := r.status(t, dc).Shards[number].Incarnation
	disturb()
	r.Await(t, dc, func(state shard.DC) bool { return state.Whole() && state.Shards[number].Incarnation > before })
}

// await calls check until it returns nil.
func await(t testing.TB, check func() error) {
	t.Helper()
	for limit := time.Now().Add(patience); ; <-time.After(step) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("shardrig: after %s: %v", patience, err)
		}
	}
}
