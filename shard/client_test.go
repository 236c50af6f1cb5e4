package shard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
	calls []string // of nodes, with keys: "address keys"
	pings int
	seen  []string // by the Observer, but not of pings: "first a0", "late b0", ...
	kept  int      // addresses of the last Retain
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
			w.see("given up %s", address)
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

// sorted returns what was called, or seen, since it was asked for last, once everything waits.
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
		o.Hosts, o.Transport, o.Observer = w, w, w
		c, err := shard.NewClient(numbers(), o)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		defer func() { require.NoError(t, <-done) }()
		defer stop()
		w.sorted(&w.seen)
		test(t, c)
	})
}

var ends = []string{"0", "1", "7", strconv.FormatUint(math.MaxUint64/2, 10), strconv.FormatUint(math.MaxUint64/2+1, 10), strconv.FormatUint(math.MaxUint64, 10)}

func TestGet(t *testing.T) {
	t.Parallel()
	w := newWorld("abc", 4)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		for _, keys := range [][]string{nil, {"0"}, ends, {"1", "1", "1"}, {"17"}} {
			got, err := c.Get(t.Context(), keys)
			require.NoError(t, err)
			require.Equal(t, valuesOf(keys...), got)
		}
		require.Len(t, w.sorted(&w.calls), 3*(1+4+1+1))
		_, err := c.Get(t.Context(), []string{"3", "1", "3"})
		require.NoError(t, err)
		require.Equal(t, []string{`a0 ["1","3","3"]`, `b0 ["1","3","3"]`, `c0 ["1","3","3"]`}, w.sorted(&w.calls))
	})
}

// A Get of more keys than a request can have asks with several.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	inWorld(t, newWorld("ab", 1), shard.ClientOptions{}, func(t *testing.T, c *client) {
		keys := make([]string, 2*shard.MaxKeys+1)
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		got, err := c.Get(t.Context(), keys)
		require.NoError(t, err)
		require.Equal(t, valuesOf(keys...), got)
	})
}

// Of three replicas, one is slow, one is down, and one answers at once.
func TestFirstAnswerWins(t *testing.T) {
	t.Parallel()
	w := newWorld("abc", 2)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "b0", "b1")
		w.set(func(p *peer) { p.delay = 100 * time.Millisecond }, "a0", "a1")
		start := time.Now()
		got, err := c.Get(t.Context(), ends)
		require.NoError(t, err)
		require.Equal(t, valuesOf(ends...), got)
		require.Zero(t, time.Since(start))
		time.Sleep(500 * time.Millisecond) // until all calls have ended
		require.Equal(t, []string{
			"failed b0: the node can't be reached", "failed b1: the node can't be reached", "first c0 0s", "first c1 0s", "late a0", "late a1",
		}, slices.Compact(w.sorted(&w.seen)))
	})
}

// What a host said that answers once nobody needs its answer still changes the map.
func TestLateAnswersTeach(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 2)
	inWorld(t, w, shard.ClientOptions{PingPeriod: time.Hour}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay, p.interval = 100*time.Millisecond, shard.All }, "a0")
		_, err := c.Get(t.Context(), []string{"0"})
		require.NoError(t, err)
		time.Sleep(200 * time.Millisecond)
		w.set(func(p *peer) { p.delay = 0 }, "a0")
		w.sorted(&w.calls)
		_, err = c.Get(t.Context(), ends[5:])
		require.NoError(t, err)
		require.Len(t, w.sorted(&w.calls), 3)
	})
}

// Calls are repeated per host, after time-outs and while it can't be reached, but not after an answer.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retries, calls int
		change         func(*peer)
	}{
		"unreachable":       {0, 2, func(p *peer) { p.err = fmt.Errorf("dial: %w", shard.ErrUnavailable) }},
		"never":             {-1, 1, func(p *peer) { p.err = shard.ErrUnavailable }},
		"three times":       {3, 4, func(p *peer) { p.err = shard.ErrUnavailable }},
		"hangs":             {0, 2, func(p *peer) { p.delay = time.Hour }},
		"not matched":       {0, 1, func(p *peer) { p.interval = shard.Interval{First: 100, Last: 200} }},
		"no shard any more": {0, 1, func(p *peer) { p.answer = func(a *shard.Response) { *a = shard.Response{} } }},
		"other cache":       {0, 1, func(p *peer) { p.err = shard.ErrOtherCache }},
		"undecodable":       {0, 1, func(p *peer) { p.err = shard.ErrUndecodable }},
		"refused":           {0, 1, func(p *peer) { p.err = errors.New("no token") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld("ab", 1)
			inWorld(t, w, shard.ClientOptions{Retries: test.retries, PingPeriod: time.Hour}, func(t *testing.T, c *client) {
				w.set(test.change, "a0")
				w.set(func(p *peer) { p.delay, p.err = 900*time.Millisecond, shard.ErrOtherCache }, "b0")
				_, err := c.Get(t.Context(), ends)
				require.Error(t, err)
				require.Len(t, w.sorted(&w.calls), test.calls+1)
			})
		})
	}
}

// An answer that nobody needs any more isn't asked for again.
func TestNoRetryAfterAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 1)
	inWorld(t, w, shard.ClientOptions{PingPeriod: time.Hour}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay = time.Hour }, "a0")
		_, err := c.Get(t.Context(), ends)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.Len(t, w.sorted(&w.calls), 2)
	})
}

// Keys that no host has wait for one, while the others are asked.
func TestKeysWithoutShard(t *testing.T) {
	t.Parallel()
	w := newWorld("a", 2)
	w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "a1")
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got, err := c.Get(ctx, ends)
		require.Equal(t, 10*time.Second, time.Since(start))
		require.Equal(t, valuesOf(ends[:4]...), got)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "shard: no answer for 2 of 6 keys: context deadline exceeded: keys 9223372036854775808, "+
			"18446744073709551615; no host has the shard of 2 of them")

		time.AfterFunc(2500*time.Millisecond, func() { w.set(func(p *peer) { p.err = nil }, "a1") })
		got, err = c.Get(t.Context(), ends)
		require.NoError(t, err)
		require.Equal(t, valuesOf(ends...), got)
		require.Equal(t, 13*time.Second, time.Since(start)) // with the next ping
		require.Len(t, w.sorted(&w.calls), 3)
		require.Contains(t, w.sorted(&w.seen), "no shard 2")
	})
}

// A Get fails if the last call for some keys does: it doesn't wait for a shard of others then.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 3)
	w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "a2", "b2")
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.err = shard.ErrUnavailable }, "a1")
		w.set(func(p *peer) { p.delay = time.Hour }, "b1")
		got, err := c.Get(t.Context(), ends)
		require.Equal(t, valuesOf(ends[:3]...), got)
		failed, ok := errors.AsType[*shard.UnansweredError[string]](err)
		require.True(t, ok)
		require.Equal(t, ends[3:], failed.Keys)
		require.EqualError(t, err, "shard: no answer for 3 of 6 keys: keys 9223372036854775807, 9223372036854775808, 18446744073709551615; "+
			"no host has the shard of 1 of them; a=a1: the node can't be reached; b=b1: no answer within the time-out of 1s")
	})
}

// The text of an error is bounded. Its fields have everything.
func TestLongErrors(t *testing.T) {
	t.Parallel()
	w := newWorld("abcdefghijklmnopqrstuvwxyzABCDEFGH", 1)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		for address := range w.nodes {
			w.set(func(p *peer) { p.err = errors.New(strings.Repeat("no", 1000)) }, address)
		}
		keys := make([]string, 1000)
		for i := range keys {
			keys[i] = strings.Repeat("0", 1000) + strconv.Itoa(i)
		}
		_, err := c.Get(t.Context(), keys)
		failed, ok := errors.AsType[*shard.UnansweredError[string]](err)
		require.True(t, ok)
		require.Len(t, failed.Keys, 1000)
		require.Len(t, failed.Hosts, 32)
		require.Less(t, len(err.Error()), 9000)
		require.Contains(t, err.Error(), "and 976 more")
	})
}

// A Get whose context ends returns at once, with what it has, and its calls are given up.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	w := newWorld("ab", 2)
	inWorld(t, w, shard.ClientOptions{}, func(t *testing.T, c *client) {
		w.set(func(p *peer) { p.delay = time.Hour }, "a1", "b1")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		got, err := c.Get(ctx, ends)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "a=a1: no answer yet; b=b1: no answer yet")
		require.Equal(t, valuesOf(ends[:4]...), got)
		seen := w.sorted(&w.seen)
		require.Subset(t, seen, []string{"given up a1", "given up b1"})
		require.NotContains(t, strings.Join(seen, " "), "failed")
		w.sorted(&w.calls)

		_, err = c.Get(ctx, ends) // ended already
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, w.sorted(&w.calls))
	})
}

// A Get waits for Run to begin, and fails once it has ended.
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("a", 1)
		c, err := shard.NewClient(numbers(), shard.ClientOptions{Hosts: w, Transport: w})
		require.NoError(t, err)
		got := make(chan error, 1)
		get := func() {
			_, err := c.Get(t.Context(), []string{"1"})
			got <- err
		}
		go get()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		require.NoError(t, <-got)
		require.Error(t, c.Run(ctx)) // twice

		w.set(func(p *peer) { p.delay = time.Hour }, "a0")
		go get()
		synctest.Wait()
		stop()
		require.NoError(t, <-ended)
		require.ErrorIs(t, <-got, shard.ErrNotRunning)
		go get()
		require.ErrorIs(t, <-got, shard.ErrNotRunning)
	})
}

// What a node must not say is as good as no answer: another one is taken, and the host is named.
func TestBadAnswers(t *testing.T) {
	t.Parallel()
	entries := func(text string) func(*shard.Response) {
		return func(a *shard.Response) { a.Payload = []byte(text) }
	}
	for said, change := range map[string]func(*peer){
		"bad answer: its shard begins at 0000000000000009, after its end at 0000000000000008": func(p *peer) { p.interval = shard.Interval{First: 9, Last: 8} },
		"bad answer: it has values, and no shard":                                             func(p *peer) { p.answer = func(a *shard.Response) { a.Assigned = false } },
		"bad answer: it has values of keys outside of its shard":                              func(p *peer) { p.answer = func(a *shard.Response) { a.Shard.First = 1 } },
		"bad answer: its values can't be decoded":                                             func(p *peer) { p.answer = entries(strings.Repeat("[", 1<<20)) },
		"bad answer: its values can't be decoded: unexpected end":                             func(p *peer) { p.answer = entries("") },
		"bad answer: it has values that weren't asked for":                                    func(p *peer) { p.answer = entries(`[{"ID":"1","Value":"x"},{"ID":"2","Value":"y"}]`) },
		"bad answer: it has 7 values for 6 keys":                                              func(p *peer) { p.answer = entries("[" + strings.Repeat(`{"ID":"1"},`, 6) + `{"ID":"1"}]`) },
		"the node doesn't have the shard of all keys":                                         func(p *peer) { p.interval.Last = 0 },
		"the node serves another cache":                                                       func(p *peer) { p.err = shard.ErrOtherCache },
		"the keys can't be decoded":                                                           func(p *peer) { p.err = shard.ErrUndecodable },
	} {
		for _, bad := range [][]string{{"a0"}, {"a0", "b0"}} {
			t.Run(fmt.Sprint(said, bad), func(t *testing.T) {
				t.Parallel()
				w := newWorld("ab", 1)
				inWorld(t, w, shard.ClientOptions{PingPeriod: time.Hour}, func(t *testing.T, c *client) {
					w.set(func(p *peer) { p.delay = time.Millisecond }, "b0")
					w.set(change, bad...)
					got, err := c.Get(t.Context(), ends)
					require.Contains(t, strings.Join(w.sorted(&w.seen), "\n"), "failed a0: "+said)
					if len(bad) == 1 {
						require.NoError(t, err)
						require.Equal(t, valuesOf(ends...), got)
						return
					}
					require.ErrorContains(t, err, "no answer for 6 of 6 keys")
					require.ErrorContains(t, err, "a=a0: "+said)
					require.ErrorContains(t, err, "b=b0: "+said)
				})
			})
		}
	}
}
