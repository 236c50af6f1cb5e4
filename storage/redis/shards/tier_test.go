package shards_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/process"
	"github.com/tidemark-dev/tidemark/internal/proxy"
	"github.com/tidemark-dev/tidemark/internal/redistest"
	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
)

// patience ends a test that would hang.
const patience = time.Minute

// tier is a cache and its nodes. Each node is a process behind a TCP proxy, whose address it advertises, so that
// nothing reaches it in another way. The status in Redis says which nodes are ready.
type tier struct {
	store   *shards.Store
	next    settings // of nodes that are added
	all     nodes
	dir     string          // of logs
	ctx     context.Context //nolint:containedctx // of the proxies
	proxies sync.WaitGroup
}

// node is a process, which can be started again.
type node struct {
	dc, host string
	process  *process.Process
	proxy    *proxy.Proxy
	listens  string // address of the process behind the proxy, which a test may give to the proxy of another node
}

// nodes are some nodes of a tier. What is done to them is done to each.
type nodes []*node

// newTier returns a cache without data centres. Nodes that are added end with the test, after the loads that start
// later.
func newTier(t *testing.T, server *redistest.Node) *tier {
	t.Helper()
	prefix := redistest.Prefix(t)
	options := redis.Options{URL: server.URL(), KeyPrefix: prefix, Logger: slog.New(slog.DiscardHandler)}
	conn, err := redis.Connect(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	f := &tier{
		store: shards.New(conn), dir: t.TempDir(), ctx: ctx, // the folder is removed after the processes have ended
		next: settings{Redis: server.URL(), Prefix: prefix, Member: shard.Member{Cache: "numbers"}},
	}
	t.Cleanup(func() {
		for _, n := range f.all {
			if err := n.process.End(syscall.SIGKILL); err != nil {
				t.Errorf("end %s: %v", n.host, err)
			}
			if t.Failed() && n.process.PID() != 0 {
				t.Logf("log of %s:\n%s", n.host, process.LastLines(n.process.Log(), 30))
			}
		}
		cancel()
		f.proxies.Wait()
	})
	return f
}

// split gives a data centre without a layout one of even shards.
func (f *tier) split(t *testing.T, dc string, shardCount int) {
	t.Helper()
	_, err := f.store.SetLayout(t.Context(), "numbers", dc, 0, shard.Even(shardCount))
	require.NoError(t, err)
}

// start makes and starts a data centre with a node for each shard, and waits until it is whole.
func (f *tier) start(t *testing.T, dc string, shardCount int) nodes {
	t.Helper()
	f.split(t, dc, shardCount)
	added := f.add(t, dc, shardCount)
	added.start(t)
	f.awaitWhole(t, dc)
	return added
}

// add makes nodes of a data centre that aren't started. Their hosts are named after the data centre and a number.
func (f *tier) add(t *testing.T, dc string, n int) (added nodes) {
	t.Helper()
	for range n {
		added = append(added, f.addHost(t, dc, fmt.Sprintf("%s-%d", dc, len(f.dc(dc)))))
	}
	return added
}

// addHost makes a node as add does.
func (f *tier) addHost(t *testing.T, dc, host string) *node {
	t.Helper()
	tcp, err := proxy.New(f.ctx, "127.0.0.1:1") // until the process listens
	require.NoError(t, err)
	f.proxies.Go(func() { tcp.Run(f.ctx) })
	s := f.next
	s.Member.DC, s.Member.Host, s.Member.Address = dc, host, tcp.Addr()
	text, err := json.Marshal(s)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	n := &node{dc: dc, host: host, proxy: tcp, process: &process.Process{
		Program: self, Env: append(os.Environ(), nodeEnv+"="+string(text), "GOMAXPROCS=1", "GOMEMLIMIT=64MiB"),
		Dir: f.dir, LogName: fmt.Sprintf("%d.log", len(f.all)),
	}}
	f.all = append(f.all, n)
	return n
}

// dc returns the nodes of a data centre.
func (f *tier) dc(dc string) nodes {
	return slices.DeleteFunc(slices.Clone(f.all), func(n *node) bool { return n.dc != dc })
}

// holder returns the node that holds a shard of a data centre.
func (f *tier) holder(t *testing.T, dc string, number int) nodes {
	t.Helper()
	state := f.status(t, dc)
	require.Less(t, number, len(state.Shards))
	holds := func(n *node) bool { return n.proxy.Addr() == state.Shards[number].Address }
	i := slices.IndexFunc(f.all, holds)
	require.GreaterOrEqual(t, i, 0, "nobody holds shard %d of %s: %+v", number, dc, state)
	return f.all[i : i+1 : i+1]
}

// status returns the state of a data centre, zero if the cache has none of the name.
func (f *tier) status(t *testing.T, dc string) shard.DC {
	t.Helper()
	all, err := f.store.Status(t.Context(), "numbers")
	require.NoError(t, err)
	for _, one := range all {
		if one.Name == dc {
			return one
		}
	}
	return shard.DC{}
}

// await waits until a data centre is in a state.
func (f *tier) await(t *testing.T, dc string, reached func(shard.DC) bool) {
	t.Helper()
	await(t, func() error {
		if state := f.status(t, dc); !reached(state) {
			return fmt.Errorf("the state of data centre %s is %+v", dc, state)
		}
		return nil
	})
}

// awaitWhole waits until all shards of data centres are held and loaded.
func (f *tier) awaitWhole(t *testing.T, dcs ...string) {
	t.Helper()
	for _, dc := range dcs {
		f.await(t, dc, shard.DC.Whole)
	}
}

// awaitNext returns when another node than before has loaded a shard, and the data centre is whole.
func (f *tier) awaitNext(t *testing.T, dc string, number int, disturb func()) {
	t.Helper()
	before := f.status(t, dc).Shards[number].Incarnation
	disturb()
	f.await(t, dc, func(state shard.DC) bool { return state.Whole() && state.Shards[number].Incarnation > before })
}

// await calls check until it returns nil.
func await(t *testing.T, check func() error) {
	t.Helper()
	for limit := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("after %s: %v", patience, err)
		}
	}
}

var listening = regexp.MustCompile(`listening on (\S+)\n`)

// start starts processes, and returns when all of them listen. Until then their proxies accept connections and answer
// nothing.
func (all nodes) start(t *testing.T) {
	t.Helper()
	printed := make([]int, len(all))
	for i, n := range all {
		if n.process.PID() != 0 {
			printed[i] = len(n.process.Log())
		}
		n.proxy.Hold() // a node may be found before it is known here where it listens
		require.NoError(t, n.process.Start(t.Context()))
	}
	for i, n := range all {
		await(t, func() error {
			log := n.process.Log()[printed[i]:]
			found := listening.FindStringSubmatch(log)
			if found == nil {
				return fmt.Errorf("%s doesn't listen:\n%s", n.host, log)
			}
			n.listens = found[1]
			n.proxy.SetTarget(n.listens)
			n.proxy.Pass()
			return nil
		})
	}
}

// kill ends processes with SIGKILL.
func (all nodes) kill(t *testing.T) {
	t.Helper()
	for _, n := range all {
		require.NoError(t, n.process.End(syscall.SIGKILL), n.host)
	}
}

// restart ends processes with SIGTERM, all at the same time, and starts them again.
func (all nodes) restart(t *testing.T) {
	t.Helper()
	all.signal(t, syscall.SIGTERM)
	for _, n := range all {
		require.NoError(t, n.process.End(syscall.SIGTERM), n.host)
	}
	all.start(t)
}

// signal sends a signal to processes.
func (all nodes) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	for _, n := range all {
		require.NoError(t, n.process.Signal(sig), n.host)
	}
}

// hold makes nodes accept connections, and never answer until pass. Open ones fall silent.
func (all nodes) hold() {
	for _, n := range all {
		n.proxy.Hold()
	}
}

// cut resets the connections to nodes.
func (all nodes) cut() {
	for _, n := range all {
		n.proxy.Cut()
	}
}

// pass ends hold and delays: what was kept back is delivered.
func (all nodes) pass() {
	for _, n := range all {
		n.proxy.Slow(0, 0)
		n.proxy.Pass()
	}
}

// client is a client that runs.
type client struct {
	*shard.Client[uint64, uint64, string]
}

// connect starts a client that finds nodes in Redis, or as the options say. It ends with the test.
func (f *tier) connect(t *testing.T, o shard.ClientOptions) client {
	t.Helper()
	transport := rpc.NewClient(rpc.ClientOptions{})
	o.Transport, o.PingPeriod = transport, pingPeriod
	if o.Hosts == nil {
		o.Hosts = f.store.Hosts("numbers")
	}
	c, err := shard.NewClient(description("numbers"), o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
		transport.Close()
	})
	return client{c}
}

// edges are sharding keys at the ends of shards, with layouts of 1, 2, 4 and 6.
var edges = func() []uint64 {
	keys := []uint64{0, math.MaxUint64}
	for _, n := range []int{2, 4, 6} {
		for _, start := range shard.Even(n)[1:] {
			keys = append(keys, start-1, start)
		}
	}
	return keys
}()

// read reads random keys.
func (c client) read(ctx context.Context, random *rand.Rand) error {
	keys := []uint64{edges[random.IntN(len(edges))], edges[random.IntN(len(edges))]}
	for range random.IntN(30) {
		keys = append(keys, random.Uint64())
	}
	return c.check(ctx, keys)
}

// check reads keys, and returns an error unless their values are right.
func (c client) check(ctx context.Context, keys []uint64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err := c.Get(ctx, keys)
	if err != nil {
		return err
	}
	want := map[uint64]string{}
	for _, key := range keys {
		if value, has := valueOf(key); has {
			want[key] = value
		}
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the values of %v are %v", keys, got)
	}
	return nil
}
