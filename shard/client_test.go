package shard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tidemark-dev/tidemark/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers is a cache whose keys are sharding keys in decimal, with the value "v" and the key; those that end in 7 have none.
func numbers() shard.Description[string, string, string] {
	return shard.Description[string, string, string]{
		Cache:       "numbers",
		ShardingKey: number,
		EntryID:     func(key string) string { return key },
		Keys:        shard.JSON[[]string](),
		Values:      shard.JSON[[]shard.Entry[string, string]](),
	}
}

func number(key string) uint64 {
	n, err := strconv.ParseUint(key, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// valuesOf returns what a Get of keys returns.
func valuesOf(keys ...string) map[string]string {
	values := map[string]string{}
	for _, k := range keys {
		if k[len(k)-1] != '7' {
			values[k] = "v" + k
		}
	}
	return values
}

// world is nodes in memory, and the network in front of them.
type world struct {
	mu    sync.Mutex
	hosts []shard.Host
	nodes map[string]*peer
	calls []string // of nodes, with keys, in order: "address keys"
	pings int
}

// peer is a node that has a shard, unless it fails.
type peer struct {
	interval shard.Interval
	delay    time.Duration
	err      error
	answer   func(*shard.Response) // changes an answer to keys
}

// newWorld returns data centres with nodes, each of which has a shard: "a0" has shard 0 of data centre a.
func newWorld(dcs string, shards int) *world {
	w := &world{nodes: map[string]*peer{}}
	layout := shard.Layout{Generation: 1, Starts: shard.Even(shards)}
	for _, dc := range dcs {
		for i := range shards {
			w.add(string(dc), fmt.Sprintf("%c%d", dc, i), layout.Interval(i))
		}
	}
	return w
}

func (w *world) add(dc, address string, in shard.Interval) *peer {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &peer{interval: in}
	w.nodes[address] = n
	w.hosts = append(w.hosts, shard.Host{Address: address, DC: dc})
	return n
}

// set changes nodes.
func (w *world) set(change func(*peer), addresses ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range addresses {
		change(w.nodes[a])
	}
}

// Hosts implements shard.Hosts.
func (w *world) Hosts(context.Context) ([]shard.Host, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hosts), nil
}

// Call implements shard.Transport.
func (w *world) Call(ctx context.Context, address string, r *shard.Request) (shard.Response, error) {
	w.mu.Lock()
	n := peer{err: shard.ErrUnavailable}
	if there := w.nodes[address]; there != nil {
		n = *there
	}
	if len(r.Keys) > 0 {
		w.calls = append(w.calls, address+" "+string(r.Payload))
	} else {
		w.pings++
	}
	w.mu.Unlock()
	if n.delay > 0 {
		select {
		case <-time.After(n.delay):
		case <-ctx.Done():
			return shard.Response{}, ctx.Err()
		}
	}
	if n.err != nil {
		return shard.Response{}, n.err
	}
	return n.get(r), nil
}

func (n *peer) get(r *shard.Request) shard.Response {
	a := shard.Response{Assigned: true, Shard: n.interval, Incarnation: 1, AllMatched: true}
	for _, k := range r.Keys {
		a.AllMatched = a.AllMatched && n.interval.Contains(k)
	}
	if a.AllMatched && len(r.Keys) > 0 {
		var keys []string
		entries := []shard.Entry[string, string]{}
		_ = json.Unmarshal(r.Payload, &keys)
		for id, v := range valuesOf(keys...) {
			entries = append(entries, shard.Entry[string, string]{ID: id, Value: v})
		}
		a.Payload, _ = json.Marshal(entries)
	}
	if n.answer != nil {
		n.answer(&a)
	}
	return a
}

// Retain implements shard.Transport.
func (w *world) Retain([]string) {}

type client = shard.Client[string, string, string]

// inWorld runs a test with a clock of its own, and a client that runs until the test has ended.
func inWorld(t *testing.T, w *world, o shard.ClientOptions, test func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Hosts, o.Transport = w, w
		c, err := shard.NewClient(numbers(), o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		defer func() { require.NoError(t, <-done) }()
		defer stop()
		synctest.Wait()
		test(t, c)
	})
}

var ends = []string{"0", "1", "7", strconv.FormatUint(math.MaxUint64/2, 10), strconv.FormatUint(math.MaxUint64/2+1, 10), strconv.FormatUint(math.MaxUint64, 10)}

func TestGet(t *testing.T) {
	t.Parallel()
	w := newWorld("abc", 4)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		for _, keys := range [][]string{nil, {"0"}, ends, {"1", "1", "1"}, {"17"}} {
			synctest.Wait()
			w.calls = nil
			got, err := c.Get(t.Context(), keys)
			require.NoError(t, err)
			require.Equal(t, valuesOf(keys...), got)
		}
		synctest.Wait()
		require.ElementsMatch(t, []string{`a0 ["17"]`, `b0 ["17"]`, `c0 ["17"]`}, w.calls)
	})
}

// One data centre answers late, one is down.
func TestGetTakesFirstAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld("abc", 2)
	w.set(func(n *peer) { n.err = shard.ErrUnavailable }, "b0", "b1")
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(n *peer) { n.delay = 100 * time.Millisecond }, "a0", "a1")
		start := time.Now()
		got, err := c.Get(t.Context(), ends)
		require.NoError(t, err)
		require.Equal(t, valuesOf(ends...), got)
		require.Zero(t, time.Since(start))
	})
}

func TestUnanswered(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 2)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(n *peer) { n.err = shard.ErrUnavailable }, "a1")
		w.set(func(n *peer) { n.delay = time.Hour }, "b1")
		got, err := c.Get(t.Context(), ends)
		require.Equal(t, valuesOf(ends[:4]...), got)
		failed, ok := errors.AsType[*shard.UnansweredError[string]](err)
		require.True(t, ok)
		require.Equal(t, ends[4:], failed.Keys)
		require.EqualError(t, err, "shard: no answer for 2 of 6 keys: keys 9223372036854775808, 18446744073709551615; "+
			"a=a1: the node can't be reached; b=b1: no answer within the time-out of 1s")
	})
}
