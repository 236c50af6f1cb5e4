// Package shardtest runs the nodes of a sharded read tier for tests: each is a process behind a TCP proxy, whose
// address it advertises, so that all traffic goes through the proxy. Nodes kills, stops and restarts them, and disturbs
// their connections. Load reads all the time, and fails the test if a read fails.
//
// Readiness is read from the status of the cache in the storage, and never assumed after a fixed time.
package shardtest

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/process"
	"github.com/tidemark-dev/tidemark/test/proxy"
)

// Options describes a tier.
type Options struct {
	Cache   string
	Layouts shard.Layouts
	// Command returns the program of a node: its path, arguments and environment. It serves behind n.Address().
	Command func(n *Node) (path string, args, env []string)
	// Listening finds the address on which the program listens in its output.
	Listening *regexp.Regexp
}

// Tier holds the nodes of one cache.
type Tier struct {
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

// Nodes are some nodes of a tier. Each method applies to all of them.
type Nodes []*Node

const (
	patience = time.Minute // ends a test that would hang
)

// New returns a tier without nodes. Those that are added end with the test, after the loads that it starts later.
func New(t testing.TB, o Options) *Tier {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	f := &Tier{o: o, ctx: ctx, dir: t.TempDir()} // the folder is removed after the processes have ended
	t.Cleanup(func() {
		for _, n := range f.nodes {
			if err := n.Process.End(syscall.SIGKILL); err != nil {
				t.Errorf("end %s: %v", n.Host, err)
			}
			if t.Failed() && n.Process.PID() != 0 {
				t.Logf("log of %s:\n%s", n.Host, process.LastLines(n.Process.Log(), 30))
			}
		}
		cancel()
		f.proxies.Wait()
	})
	return f
}

// Add adds nodes to a data centre, each with a proxy, without starting them. Their hosts are named after the data
// centre and a number.
func (f *Tier) Add(t testing.TB, dc string, n int) Nodes {
	t.Helper()
	var added Nodes
	for range n {
		added = append(added, f.AddHost(t, dc, fmt.Sprintf("%s-%d", dc, len(f.DC(dc)))))
	}
	return added
}

// AddHost adds one node with a given host name, as Add does.
func (f *Tier) AddHost(t testing.TB, dc, host string) *Node {
	t.Helper()
	tcp, err := proxy.New(f.ctx, "127.0.0.1:1") // until the process listens
	if err != nil {
		t.Fatalf("start a proxy: %v", err)
	}
	f.proxies.Go(func() { tcp.Run(f.ctx) })
	node := &Node{DC: dc, Host: host, Proxy: tcp, listening: f.o.Listening}
	node.Process = &process.Process{Dir: f.dir, LogName: fmt.Sprintf("%d.log", len(f.nodes))}
	node.Process.Program, node.Process.Args, node.Process.Env = f.o.Command(node)
	f.nodes = append(f.nodes, node)
	return node
}

// All returns all nodes.
func (f *Tier) All() Nodes { return slices.Clone(f.nodes) }

// DC returns the nodes of a data centre.
func (f *Tier) DC(dc string) Nodes {
	return slices.DeleteFunc(f.All(), func(n *Node) bool { return n.DC != dc })
}

// Holder returns the node that holds a shard of a data centre.
func (f *Tier) Holder(t testing.TB, dc string, number int) Nodes {
	t.Helper()
	state := f.status(t, dc)
	for _, n := range f.DC(dc) {
		if number < len(state.Shards) && n.Address() == state.Shards[number].Address {
			return Nodes{n}
		}
	}
	t.Fatalf("nobody holds shard %d of %s: %+v", number, dc, state)
	return nil
}

// status returns the state of a data centre, zero if the cache has none of the name.
func (f *Tier) status(t testing.TB, dc string) shard.DC {
	t.Helper()
	all, err := f.o.Layouts.Status(t.Context(), f.o.Cache)
	if err != nil {
		t.Fatalf("read the status: %v", err)
	}
	for _, centre := range all {
		if centre.Name == dc {
			return centre
		}
	}
	return shard.DC{}
}

// Await waits until a data centre is in a state.
func (f *Tier) Await(t testing.TB, dc string, reached func(shard.DC) bool) {
	t.Helper()
	await(t, func() error {
		if state := f.status(t, dc); !reached(state) {
			return fmt.Errorf("the state of data centre %s is %+v", dc, state)
		}
		return nil
	})
}

// AwaitWhole waits until all shards of data centres are held and loaded.
func (f *Tier) AwaitWhole(t testing.TB, dcs ...string) {
	t.Helper()
	for _, dc := range dcs {
		f.Await(t, dc, shard.DC.Whole)
	}
}

// AwaitNext returns when a node other than the given one has loaded the shard, and the data centre is complete.
func (f *Tier) AwaitNext(t testing.TB, dc string, number int, disturb func()) {
	t.Helper()
	before := f.status(t, dc).Shards[number].Incarnation
	disturb()
	f.Await(t, dc, func(state shard.DC) bool { return state.Whole() && state.Shards[number].Incarnation > before })
}

// await calls check until it returns nil.
func await(t testing.TB, check func() error) {
	t.Helper()
	for began := time.Now(); ; <-time.After(pace.Look(began)) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("after %s: %v", patience, err)
		}
	}
}
