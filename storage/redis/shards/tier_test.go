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
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/shard/rpc"
	"github.com/tidemark-dev/tidemark/storage/redis"
	"github.com/tidemark-dev/tidemark/storage/redis/shards"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/shardtest"
)

// patience bounds a test that would otherwise hang.
const patience = time.Minute

// tier is a cache, its nodes, and its state in Redis.
type tier struct {
	*shardtest.Tier
	store *shards.Store
	next  settings // of nodes that are added
}

// newTier returns a cache without data centres.
func newTier(t *testing.T, server *redistest.Node) *tier {
	t.Helper()
	prefix := redistest.Prefix(t)
	options := redis.Options{URL: server.URL(), KeyPrefix: prefix, Logger: slog.New(slog.DiscardHandler)}
	conn, err := redis.Connect(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	next := settings{Redis: server.URL(), Prefix: prefix, Member: shard.Member{Cache: "numbers"}}
	f := &tier{store: shards.New(conn), next: next}
	self, err := os.Executable()
	require.NoError(t, err)
	f.Tier = shardtest.New(t, shardtest.Options{
		Cache: "numbers", Layouts: f.store, Listening: regexp.MustCompile(`listening on (\S+)\n`),
		Command: func(n *shardtest.Node) (string, []string, []string) {
			s := f.next
			s.Member.DC, s.Member.Host, s.Member.Address = n.DC, n.Host, n.Address()
			text, err := json.Marshal(s)
			require.NoError(t, err)
			return self, nil, append(os.Environ(), nodeEnv+"="+string(text), "GOMAXPROCS=1", "GOMEMLIMIT=64MiB")
		},
	})
	return f
}

// split sets a layout of even shards in a data centre without one.
func (f *tier) split(t *testing.T, dc string, shardCount int) {
	t.Helper()
	_, err := f.store.SetLayout(t.Context(), "numbers", dc, 0, shard.Even(shardCount))
	require.NoError(t, err)
}

// start starts a data centre with a node for each shard, and waits until it is complete.
func (f *tier) start(t *testing.T, dc string, shardCount int) shardtest.Nodes {
	t.Helper()
	f.split(t, dc, shardCount)
	nodes := f.Add(t, dc, shardCount)
	nodes.Start(t)
	f.AwaitWhole(t, dc)
	return nodes
}

// client is a running client.
type client struct {
	*shard.Client[uint64, uint64, string]
}

// connect starts a client that finds nodes in Redis, unless the options say otherwise. It stops with the test.
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

// load reads until the test ends.
func (c client) load(t *testing.T) *shardtest.Load {
	t.Helper()
	return shardtest.StartLoad(t, 25, c.read)
}

// await calls check until it returns nil.
func await(t *testing.T, check func() error) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool { err = check(); return err == nil }, patience, 10*time.Millisecond)
}
