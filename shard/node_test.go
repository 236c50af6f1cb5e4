package shard_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
)

const (
	ping   = time.Second
	ttl    = 10 * time.Second
	margin = time.Second
)

// squares is a cache of the squares of numbers, whose sharding keys they are.
var squares = shard.Description[uint64, uint64, uint64]{
	Cache: "squares", ShardingKey: func(n uint64) uint64 { return n }, EntryID: func(n uint64) uint64 { return n },
	Keys: asJSON[[]uint64]{}, Values: asJSON[[]shard.Entry[uint64, uint64]]{},
}

type asJSON[T any] struct{}

func (asJSON[T]) Append(dst []byte, value T) ([]byte, error) {
	data, err := json.Marshal(value)
	return append(dst, data...), err
}

func (asJSON[T]) Decode(data []byte) (value T, err error) {
	err = json.Unmarshal(data, &value)
	return value, err
}

// source is the node's source: run is called for each run. nil: it has every number, at once.
type source struct {
	run   func(ctx context.Context, in shard.Interval, serve func(shard.Reader[uint64, uint64, uint64])) error
	runs  []shard.Interval
	ended int
}

func (s *source) Run(ctx context.Context, in shard.Interval, serve func(shard.Reader[uint64, uint64, uint64])) error {
	s.runs = append(s.runs, in)
	defer func() { s.ended++ }()
	if s.run != nil {
		return s.run(ctx, in, serve)
	}
	serve(square)
	<-ctx.Done()
	return ctx.Err()
}

func square(_ context.Context, keys []uint64) (entries []shard.Entry[uint64, uint64], _ error) {
	for _, key := range keys {
		if key%2 == 0 { // odd numbers have none
			entries = append(entries, shard.Entry[uint64, uint64]{ID: key, Value: key * key})
		}
	}
	return entries, nil
}

// node is a Node that runs.
type node struct {
	*shard.Node[uint64, uint64, uint64]
	source *source
	end    context.CancelFunc
	ended  chan struct{} // closed when it has
	err    error         // of Run
}

// start runs a node in a bubble until the test ends, and waits until nothing happens without time passing.
func start(t *testing.T, m *memory, host string, change func(*shard.NodeOptions, *source)) *node {
	t.Helper()
	n := &node{source: &source{}, ended: make(chan struct{})}
	o := shard.NodeOptions{Member: shard.Member{DC: "a", Host: host, Address: host + ":1"}, Claims: m, PingPeriod: ping, TTL: ttl, Margin: margin}
	if change != nil {
		change(&o, n.source)
	}
	var err error
	n.Node, err = shard.NewNode(squares, n.source, o)
	require.NoError(t, err)
	require.ErrorContains(t, n.Ready(), "isn't run")
	var ctx context.Context
	ctx, n.end = context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		n.err = n.Run(ctx)
		close(n.ended)
	})
	t.Cleanup(func() {
		n.end()
		running.Wait()
	})
	synctest.Wait()
	return n
}

// ask asks a node for keys.
func (n *node) ask(t *testing.T, keys ...uint64) shard.Response {
	t.Helper()
	r := &shard.Request{Cache: "squares", Keys: keys}
	if len(keys) > 0 {
		payload, err := json.Marshal(keys)
		require.NoError(t, err)
		r.Payload = payload
	}
	got, err := n.Get(t.Context(), r)
	require.NoError(t, err)
	return got
}

// pass lets a time pass, and what follows from that happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestANodeAnswersForItsShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(2)
		n := start(t, m, "h1", nil)
		require.NoError(t, n.Ready())
		require.True(t, m.at(0).loaded)
		low := shard.Layout{Starts: shard.Even(2)}.Interval(0)
		answer := shard.Response{Assigned: true, Shard: low, Incarnation: 1, AllMatched: true}
		require.Equal(t, answer, n.ask(t), "the ping")
		matched := answer
		matched.Payload = []byte(`[{"ID":0,"Value":0},{"ID":2,"Value":4},{"ID":2,"Value":4}]`)
		require.Equal(t, matched, n.ask(t, 0, 1, 2, 2))
		answer.AllMatched = false
		require.Equal(t, answer, n.ask(t, low.Last+1))
		require.Equal(t, answer, n.ask(t, 0, low.Last+1))
		_, err := n.Get(t.Context(), &shard.Request{Cache: "cubes"})
		require.ErrorIs(t, err, shard.ErrOtherCache)

		pass(5 * ttl)
		require.NoError(t, n.Ready())
		n.end()
		synctest.Wait()
		require.NoError(t, n.err)
		require.Equal(t, shard.Response{}, n.ask(t, 0))
		require.Zero(t, m.at(0).until, "the shard was left")
		require.Equal(t, 1, n.source.ended)
	})
}

// away makes the store fail from now on, and answer again when back is called.
func (m *memory) away() (back func()) {
	m.fails.Store(&errAway)
	return func() { m.fails.Store(nil) }
}

func TestAnOutageOfTheStore(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"it stops": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(1)
				n := start(t, m, "h1", func(o *shard.NodeOptions, _ *source) { o.KeepServing = keep })
				back := m.away()
				pass(ttl - margin - ping)
				require.True(t, n.ask(t, 2).AllMatched, "the claim goes on by itself for some time")
				pass(10 * ttl)
				require.Equal(t, keep, n.ask(t, 2).AllMatched)
				require.Equal(t, keep, n.Ready() == nil)
				back()
				pass(2 * ping)
				require.Equal(t, shard.Response{Assigned: true, AllMatched: true, Shard: shard.All, Incarnation: 2}, n.ask(t))
				require.NoError(t, n.Ready())
				require.Len(t, n.source.runs, 1, "what is loaded was kept")
				require.Zero(t, n.source.ended)
			})
		})
	}
}

func TestALostShardEndsTheNode(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(m *memory){
		"it is refused":          func(m *memory) { m.give(0, "h2") },
		"there is another shard": func(m *memory) { m.give(0, "h2"); m.give(1, "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(2)
				m.give(1, "h3")
				n := start(t, m, "h1", nil)
				require.NoError(t, n.Ready())
				lose(m)
				pass(ping)
				<-n.ended
				require.ErrorIs(t, n.err, lease.ErrLost)
				require.Equal(t, shard.Response{}, n.ask(t, 2))
				require.ErrorContains(t, n.Ready(), "another node has got the shard")
				require.NotContains(t, []string{m.holder(0), m.holder(1)}, "h1", "what it claimed was left")
				require.Equal(t, 1, n.source.ended)
			})
		})
	}
}
