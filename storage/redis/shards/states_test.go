package shards_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/redistest"
	"github.com/tidemark-dev/tidemark/test/shardtest"
)

// Reads of a client that starts first are answered once there are nodes.
func TestAClientBeforeAnyNode(t *testing.T) {
	t.Parallel()
	f := newTier(t, redistest.Standalone(t))
	load := f.connect(t, shard.ClientOptions{}).load(t)
	f.start(t, "a", 2)
	load.Await(t, 50)
}

// While Redis is unreachable nodes answer until their claims end, and again when it is back; or they continue, if so
// configured.
func TestRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"nodes stop": false, "nodes go on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t,
				redistest.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
			f := newTier(t, server)
			f.next.KeepServing = keep
			nodes := append(f.start(t, "a", 2), f.start(t, "b", 2)...)
			waited := make(chan struct{}, 1)
			c := f.connect(t, shard.ClientOptions{Observer: observer{noShard: func(int) { notify(waited) }}})
			require.NoError(t, c.check(t.Context(), edges))
			server.Kill(t)
			if keep {
				drain(waited) // of before the client knew all nodes
				load := c.load(t)
				awaitLogged(t, nodes, "wasn't renewed in time")
				load.Await(t, 50)
			} else {
				awaitLogged(t, nodes, "wasn't renewed in time")
				ctx, cancel := context.WithTimeout(t.Context(), pingPeriod)
				defer cancel()
				_, err := c.Get(ctx, edges)
				_ = requireUnanswered(t, err, edges)
			}
			server.Restart(t)
			f.AwaitWhole(t, "a", "b")
			await(t, func() error { return c.check(t.Context(), edges) })
			c.load(t).Await(t, 50)
			require.False(t, keep && drain(waited), "nodes that go on answer also while they claim their shards again")
			for _, n := range nodes {
				require.Equal(t, 1, strings.Count(n.Process.Log(), loading), "the shard wasn't loaded again")
			}
		})
	}
}

// loading is the line that a test node prints when it loads its shard.
const loading = "loading the shard\n"

// awaitLogged waits until nodes have logged a text.
func awaitLogged(t *testing.T, nodes shardtest.Nodes, text string) {
	t.Helper()
	for _, n := range nodes {
		await(t, func() error {
			if !strings.Contains(n.Process.Log(), text) {
				return fmt.Errorf("%s hasn't logged %q", n.Host, text)
			}
			return nil
		})
	}
}

// A node of another cache at the address of a node doesn't disturb reads. The error of a Get that finds only such nodes
// says so.
func TestANodeOfAnotherCache(t *testing.T) {
	t.Parallel()
	f := newTier(t, redistest.Standalone(t))
	both := append(f.start(t, "a", 1), f.start(t, "b", 1)...)
	f.next.Member.Cache = "words"
	other := f.AddHost(t, "a", "other")
	shardtest.Nodes{other}.Start(t) // there is no layout for its cache, but it listens
	failed := make(chan struct{}, 1)
	c := f.connect(t, shard.ClientOptions{
		Hosts: shard.StaticHosts{{Address: both[0].Address(), DC: "a"}, {Address: both[1].Address(), DC: "b"}},
		Observer: observer{failed: func(err error) {
			if errors.Is(err, shard.ErrOtherCache) {
				notify(failed)
			}
		}},
	})
	load := c.load(t)
	load.Await(t, 50)
	both[:1].Kill(t)
	both[0].Proxy.SetTarget(other.Listens)
	<-failed
	load.Await(t, 50)
	both[:1].Start(t)
	f.AwaitWhole(t, "a", "b")
	load.Await(t, 50)
}

// A data centre with fewer nodes than shards answers for the shards that it has, the others for the rest. Without
// others a Get waits, and names the keys.
func TestFewerNodesThanShards(t *testing.T) {
	t.Parallel()
	f := newTier(t, redistest.Standalone(t))
	f.split(t, "a", 4)
	f.Add(t, "a", 3).Start(t)
	var present, missing []uint64 // keys at both ends of shards
	f.Await(t, "a", func(state shard.DC) bool {
		present, missing = nil, nil
		for i, h := range state.Shards {
			in := state.Layout.Interval(i)
			if h.Left == 0 || !h.Loaded {
				missing = append(missing, in.First, in.Last)
			} else {
				present = append(present, in.First, in.Last)
			}
		}
		return len(missing) == 2
	})
	waiting := make(chan struct{}, 1)
	c := f.connect(t, shard.ClientOptions{Observer: observer{noShard: func(int) { notify(waiting) }}})
	require.NoError(t, c.check(t.Context(), present)) // from now on the client knows the other shards
	drain(waiting)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		<-waiting
	}()
	_, err := c.Get(ctx, missing)
	require.Equal(t, 2, requireUnanswered(t, err, missing).Lost)

	f.start(t, "b", 4)
	c.load(t).Await(t, 50)
}

// requireUnanswered requires that a Get has no answer for these keys.
func requireUnanswered(t *testing.T, err error, keys []uint64) *shard.UnansweredError[uint64] {
	t.Helper()
	var e *shard.UnansweredError[uint64]
	require.ErrorAs(t, err, &e)
	require.ElementsMatch(t, keys, e.Keys)
	return e
}

// Answers that can't be decoded are ignored. Without others a Get names its keys, and the hosts.
func TestGarbledAnswers(t *testing.T) {
	t.Parallel()
	f := newTier(t, redistest.Standalone(t))
	f.next.Garbled = true
	bad := f.start(t, "a", 2)
	addresses := []string{bad[0].Address(), bad[1].Address()}
	c := f.connect(t, shard.ClientOptions{})
	keys := []uint64{0, math.MaxUint64}
	var unanswered *shard.UnansweredError[uint64]
	require.Eventually(t, func() bool {
		_, err := c.Get(t.Context(), keys)
		unanswered = requireUnanswered(t, err, keys)
		return len(unanswered.Hosts) == 2 // the client may have found only one of them
	}, patience, 10*time.Millisecond)
	for _, said := range unanswered.Hosts {
		require.ErrorIs(t, said.Err, shard.ErrBadAnswer)
		require.Contains(t, addresses, said.Host.Address)
		require.ErrorContains(t, unanswered, said.Host.Address)
	}
	f.next.Garbled = false
	f.start(t, "b", 2)
	await(t, func() error { return c.check(t.Context(), keys) }) // until the client finds the other nodes
	c.load(t).Await(t, 50)
}

// A data centre is removed from service and added again. Nodes that already run wait for the new layout.
func TestALayoutIsRemoved(t *testing.T) {
	t.Parallel()
	f := newTier(t, redistest.Standalone(t))
	nodes := f.start(t, "a", 2)
	f.start(t, "b", 2)
	load := f.connect(t, shard.ClientOptions{}).load(t)
	load.Await(t, 20)
	require.ErrorIs(t, f.store.Remove(t.Context(), "numbers", "a"), shard.ErrInUse)
	nodes.Kill(t)
	await(t, func() error { return f.store.Remove(t.Context(), "numbers", "a") })
	nodes.Start(t)
	awaitLogged(t, nodes, "has no layout")
	load.Await(t, 50)
	f.split(t, "a", 2)
	f.AwaitWhole(t, "a")
	load.Await(t, 50)
}

// A second process with the name of a host waits until the first one has ended.
func TestTwoProcessesOfOneHost(t *testing.T) {
	t.Parallel()
	f := newTier(t, redistest.Standalone(t))
	f.split(t, "a", 2)
	f.start(t, "b", 2)
	load := f.connect(t, shard.ClientOptions{}).load(t)
	first, second := shardtest.Nodes{f.AddHost(t, "a", "same")}, shardtest.Nodes{f.AddHost(t, "a", "same")}
	held := func(by shardtest.Nodes) func(shard.DC) bool {
		return func(state shard.DC) bool {
			return state.Shards[0].Address == by[0].Address() && state.Shards[0].Loaded && state.Shards[1].Left == 0
		}
	}
	first.Start(t)
	f.Await(t, "a", held(first))
	second.Start(t)
	awaitLogged(t, second, "another process has this host name")
	load.Await(t, 20)
	f.Await(t, "a", held(first))
	first.Kill(t)
	f.Await(t, "a", held(second))
	load.Await(t, 20)
}

// observer records the events of a client.
type observer struct {
	noShard func(keys int)
	failed  func(error)
}

func (observer) First(shard.Host, time.Duration) {}
func (observer) Late(shard.Host)                 {}
func (observer) Changed(int, int)                {}

func (o observer) NoShard(keys int) {
	if o.noShard != nil {
		o.noShard(keys)
	}
}

func (o observer) Failed(_ shard.Host, err error) {
	if o.failed != nil {
		o.failed(err)
	}
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drain takes a notification, and reports whether there was one.
func drain(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
