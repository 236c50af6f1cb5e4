package shard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/shard"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(workerEnv); text != "" {
		runWorker(text)
		return
	}
	redistest.Main(m)
}

// numbers is a cache whose keys are sharding keys in decimal, with the value "v" and the key; those that end in 7 have
// none.
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

// valuesOf returns the result of a Get of keys.
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
	busy atomic.Int64 // calls and pings

	mu       sync.Mutex
	hosts    []shard.Host
	hostsErr error
	nodes    map[string]*peer
	calls    []string // of nodes, with keys: "address keys"
	pings    int
	seen     []string // by the Observer, but not of pings: "first a0", "late b0", ...
	kept     int      // addresses of the last Retain
}

// peer is a node that has a shard, unless it fails.
type peer struct {
	interval shard.Interval
	delay    time.Duration
	linger   [2]time.Duration // of pings and of calls that are given up
	err      error
	answer   func(*shard.Response) // changes an answer to keys
}

// newWorld returns data centres with nodes, one for each shard: "a0" has shard 0 of data centre a.
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

func (w *world) add(dc, address string, in shard.Interval) shard.Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes[address] = &peer{interval: in}
	w.hosts = append(w.hosts, shard.Host{Address: address, DC: dc})
	return w.hosts[len(w.hosts)-1]
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
	return slices.Clone(w.hosts), w.hostsErr
}

// Call implements shard.Transport.
func (w *world) Call(ctx context.Context, address string, r *shard.Request) (shard.Response, error) {
	w.busy.Add(1)
	defer w.busy.Add(-1)
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
			<-time.After(n.linger[min(len(r.Keys), 1)])
			w.see("given up %s", address)
			return shard.Response{}, ctx.Err()
		}
	}
	return n.get(r), n.err
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
func (w *world) Retain(addresses []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = len(addresses)
}

// world is a shard.Observer.
func (w *world) First(h shard.Host, took time.Duration) { w.see("first %s %v", h.Address, took) }
func (w *world) Failed(h shard.Host, err error)         { w.see("failed %s: %v", h.Address, err) }
func (w *world) Late(h shard.Host)                      { w.see("late %s", h.Address) }
func (w *world) NoShard(keys int)                       { w.see("no shard %d", keys) }
func (w *world) Changed(hosts, assigned int)            { w.see("map %d %d", hosts, assigned) }

func (w *world) see(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprintf(format, args...))
}

// sorted waits until all goroutines are idle, and returns the calls or events since it was last called, sorted.
func (w *world) sorted(of *[]string) []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := *of
	*of = nil
	slices.Sort(all)
	return all
}

type client = shard.Client[string, string, string]

// inWorld runs a test with a clock of its own, and a client that runs until the test has ended.
func inWorld(t *testing.T, w *world, o shard.ClientOptions, test func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Transport, o.Observer = w, w
		if o.Hosts == nil {
			o.Hosts = w
		}
		c, err := shard.NewClient(numbers(), o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		defer func() {
			require.NoError(t, <-done)
			require.Zero(t, w.busy.Load())
		}()
		defer stop()
		w.sorted(&w.seen)
		test(t, c)
	})
}

// wait advances time.
func wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var ends = []string{"0", "1", "7", strconv.FormatUint(math.MaxUint64/2, 10), strconv.FormatUint(math.MaxUint64/2+1, 10),
	strconv.FormatUint(math.MaxUint64, 10)}
