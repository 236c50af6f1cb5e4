package shard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// squares is a cache of squares by number. A number is its own sharding key.
var squares = shard.Description[uint64, uint64, uint64]{
	Cache: "squares", ShardingKey: func(n uint64) uint64 { return n }, EntryID: func(n uint64) uint64 { return n },
	Keys: shard.JSON[[]uint64](), Values: shard.JSON[[]shard.Entry[uint64, uint64]](),
}

type run func(ctx context.Context, in shard.Interval, serve func(shard.Reader[uint64, uint64, uint64])) error

// source is the node's source.
type source struct {
	run     run
	refresh func(ctx context.Context) error // nil: it returns nil at once

	mu    sync.Mutex
	runs  []shard.Interval
	ended int
}

// ran returns the intervals of all runs, and how many runs have ended.
func (s *source) ran() (runs []shard.Interval, ended int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs), s.ended
}

func (s *source) Run(ctx context.Context, in shard.Interval, serve func(shard.Reader[uint64, uint64, uint64])) error {
	s.mu.Lock()
	s.runs = append(s.runs, in)
	s.mu.Unlock()
	err := s.run(ctx, in, serve)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	return err
}

// Refresh implements shard.Refresher.
func (s *source) Refresh(ctx context.Context) error {
	if s.refresh == nil {
		return nil
	}
	return s.refresh(ctx)
}

func square(_ context.Context, keys []uint64) (entries []shard.Entry[uint64, uint64], _ error) {
	for _, key := range keys {
		if key%2 == 0 { // odd numbers have none
			entries = append(entries, shard.Entry[uint64, uint64]{ID: key, Value: key * key})
		}
	}
	return entries, nil
}

// seen is an event that a node reports to its observer.
type seen []string

func (s *seen) add(what string, err error) {
	if err != nil {
		what += ": " + err.Error()
	}
	*s = append(*s, what)
}

func (s *seen) Answered(keys int, matched bool, _ time.Duration, err error) {
	s.add(fmt.Sprint("answered ", keys, matched), err)
}
func (s *seen) Claimed(c shard.Claimed)           { s.add(fmt.Sprint("claimed ", c.Incarnation), nil) }
func (s *seen) Loaded(_ time.Duration, err error) { s.add("loaded", err) }
func (s *seen) Stopped(why error)                 { s.add("stopped", why) }

// node is a Node that runs.
type node struct {
	*shard.Node[uint64, uint64, uint64]
	source *source
	end    context.CancelFunc
	ended  chan struct{} // closed when it has
	err    error         // of Run
}

// start runs a node in a synctest bubble until the test ends, and waits until all goroutines are idle.
func start(t *testing.T, m *memory, host string, change func(*shard.NodeOptions, *source)) *node {
	t.Helper()
	n := &node{source: &source{run: serveOnce(square)}, ended: make(chan struct{})}
	o := shard.NodeOptions{Member: shard.Member{DC: "a", Host: host, Address: host + ":1"}, Claims: m, PingPeriod: ping,
		TTL: ttl, Margin: margin}
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

// pass advances time, and waits until all goroutines are idle.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestANodeAnswersForItsShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(2)
		var observed seen
		n := start(t, m, "h1", func(o *shard.NodeOptions, _ *source) { o.Observer = &observed })
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

		before := m.count("ping")
		pass(5 * ttl)
		require.NoError(t, n.Ready())
		require.InDelta(t, 58, m.count("ping")-before, 9, "every PingPeriod, or up to a quarter earlier")
		n.end()
		synctest.Wait()
		require.NoError(t, n.err)
		require.Equal(t, shard.Response{}, n.ask(t, 0))
		require.Zero(t, m.at(0).until, "the shard was left")
		require.Equal(t, seen{
			"claimed 1", "loaded", "answered 0 true", "answered 4 true", "answered 1 false", "answered 2 false",
			"answered 0 false: " + shard.ErrOtherCache.Error(),
			"stopped: context canceled", "answered 1 false",
		}, observed)
		_, ended := n.source.ran()
		require.Equal(t, 1, ended)
	})
}

// away makes the store fail until back is called.
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
				require.Equal(t, shard.Response{Assigned: true, AllMatched: true, Shard: shard.All, Incarnation: 2},
					n.ask(t))
				require.NoError(t, n.Ready())
				runs, ended := n.source.ran()
				require.Len(t, runs, 1, "what is loaded was kept")
				require.Zero(t, ended)
			})
		})
	}
}

// A node that claims its shard again answers when its source has read what it has missed, and isn't loaded before.
func TestANodeThatClaimsAgainIsRefreshed(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"it stops": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m, refreshed, calls := newMemory(1), make(chan error), 0
				n := start(t, m, "h1", func(o *shard.NodeOptions, s *source) {
					o.KeepServing = keep
					s.refresh = func(ctx context.Context) error {
						calls++
						select {
						case err := <-refreshed:
							return err
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				})
				require.True(t, n.ask(t, 2).AllMatched)
				require.Zero(t, calls, "it has missed nothing when it has loaded")
				for round := range 2 { // during the first one the claim ends again
					back := m.away()
					pass(2 * ttl)
					back()
					pass(2 * ping)
					require.Equal(t, "h1", m.holder(0))
					require.Equal(t, round+1, calls)
					require.Equal(t, keep, n.ask(t, 2).AllMatched)
					require.Equal(t, keep, m.at(0).loaded)
					if !keep {
						require.ErrorContains(t, n.Ready(), "reads what it has missed")
					}
				}
				refreshed <- errAway
				pass(ping)
				require.Equal(t, 3, calls, "it is tried again")
				require.Equal(t, keep, n.ask(t, 2).AllMatched)
				refreshed <- nil
				synctest.Wait()
				require.EqualValues(t, 3, n.ask(t, 2).Incarnation)
				require.NoError(t, n.Ready())
				require.True(t, m.at(0).loaded)
			})
		})
	}
}

// The store fails over and loses all claims: nodes that have loaded a shard keep their values and wait until the store
// gives out shards again.
func TestAStoreThatMayHaveLostClaims(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"it stops": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(1)
				n := start(t, m, "h1", func(o *shard.NodeOptions, _ *source) { o.KeepServing = keep })
				m.failOver()
				pass(2 * ping)
				require.Equal(t, keep, n.ask(t, 2).AllMatched)
				if !keep {
					require.EqualError(t, n.Ready(), shard.ErrUnsure.Error())
				}
				pass(ttl)
				require.Equal(t, shard.Response{Assigned: true, AllMatched: true, Shard: shard.All, Incarnation: 2},
					n.ask(t))
				runs, ended := n.source.ran()
				require.Len(t, runs, 1, "what is loaded was kept")
				require.Zero(t, ended)
			})
		})
	}
}

// The store loses everything, the layout too: the nodes restore it, and claim the shards that they have loaded once all
// claims that were lost have ended.
func TestAStoreThatHasLostEverything(t *testing.T) {
	t.Parallel()
	for name, keep := range map[string]bool{"it stops": false, "it goes on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(2)
				layout := m.layout
				nodes := m.startTwo(t, keep)
				m.flush()
				pass(2 * ping)
				for _, n := range nodes {
					require.Equal(t, keep, n.ask(t).Assigned)
				}
				pass(ttl)
				require.Equal(t, layout, m.layout)
				for i, n := range nodes {
					require.NoError(t, n.Ready())
					require.Equal(t, layout.Interval(i), n.ask(t).Shard)
					runs, _ := n.source.ran()
					require.Len(t, runs, 1, "what is loaded was kept")
				}
			})
		})
	}
}

// startTwo starts the nodes of two shards.
func (m *memory) startTwo(t *testing.T, keep bool) []*node {
	t.Helper()
	change := func(o *shard.NodeOptions, _ *source) { o.KeepServing = keep }
	return []*node{start(t, m, "h1", change), start(t, m, "h2", change)}
}

// The store loses everything, and an operator sets another layout before the nodes notice: they load its shards, also
// if its generation is that of the lost one.
func TestAnotherLayoutInPlaceOfALostOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(2)
		nodes := m.startTwo(t, false)
		m.flush()
		m.setLayout(0, 7)
		pass(2 * ttl)
		var answered []shard.Interval
		for _, n := range nodes {
			require.NoError(t, n.Ready())
			answered = append(answered, n.ask(t).Shard)
		}
		require.ElementsMatch(t, []shard.Interval{m.layout.Interval(0), m.layout.Interval(1)}, answered)
	})
}

// When a node gives its claim up, the claim is still valid in the store: no other node gets the shard.
func TestAnOutageAsShortAsTheMargin(t *testing.T) {
	t.Parallel()
	for name, loading := range map[string]time.Duration{"loaded": 0, "loading": 2 * ttl} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(1)
				n := start(t, m, "h1", func(_ *shard.NodeOptions, s *source) {
					s.run = func(ctx context.Context, in shard.Interval,
						serve func(shard.Reader[uint64, uint64, uint64])) error {
						<-time.After(loading)
						return serveOnce(square)(ctx, in, serve)
					}
				})
				start(t, m, "h2", nil)
				back := m.away()
				pass(ttl - ping)
				require.Equal(t, shard.Response{}, n.ask(t, 2))
				back()
				pass(margin - margin/10)
				require.Equal(t, "h1", m.holder(0))
				pass(loading)
				require.EqualValues(t, 1, n.ask(t, 2).Incarnation)
				require.Zero(t, m.count("leave"))
			})
		})
	}
}

// The reply to a claim is lost. The claim is repeated with the same token, so the node doesn't wait for itself; after
// its end, it is repeated with another token.
func TestALostReply(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		again       time.Duration // from when on the store can be reached
		incarnation int
	}{"soon": {0, 2}, "too late": {2 * ttl, 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(1)
				n := start(t, m, "h1", nil)
				back := m.away()
				pass(2 * ttl)
				lost := func(op string) error {
					if op != "claim" {
						return nil
					}
					m.after.Store(nil)
					m.away()
					return errAway
				}
				m.after.Store(&lost)
				back()
				pass(ping)
				pass(test.again)
				back()
				pass(ping)
				require.EqualValues(t, test.incarnation, n.ask(t, 2).Incarnation)
			})
		})
	}
}

// The clock of the store is set forward: all claims end at once, and the nodes claim their shards again.
func TestTheClockOfTheStoreIsSetForward(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(2)
		nodes := []*node{start(t, m, "h1", nil), start(t, m, "h2", nil)}
		m.ahead.Store(int64(time.Hour))
		pass(2 * ping)
		for i, n := range nodes {
			require.True(t, n.ask(t).Assigned)
			runs, _ := n.source.ran()
			require.Equal(t, []shard.Interval{m.at(i).Interval}, runs,
				"it has the same shard, which it didn't load again")
		}
	})
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
				require.ErrorContains(t, n.Ready(), "the node has lost its shard")
				require.NotContains(t, []string{m.holder(0), m.holder(1)}, "h1", "what it claimed was left")
				_, ended := n.source.ran()
				require.Equal(t, 1, ended)
			})
		})
	}
}

// If its data centre gets another layout, a node leaves its shard, claims another, and loads it.
func TestAnotherLayout(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"at once": 0, "as short as the margin": ttl - ping,
		"after a long outage": 2 * ttl} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(1)
				n := start(t, m, "h1", func(o *shard.NodeOptions, _ *source) { o.KeepServing = true })
				back := m.away()
				pass(away)
				m.setLayout(shard.Even(2)...)
				m.give(0, "h2")
				back()
				pass(3 * ping)
				in := shard.Layout{Starts: shard.Even(2)}.Interval(1)
				require.Equal(t, shard.Response{Assigned: true, AllMatched: true, Shard: in, Incarnation: 3}, n.ask(t))
				runs, ended := n.source.ran()
				require.Equal(t, []shard.Interval{shard.All, in}, runs)
				require.Equal(t, 1, ended)
			})
		})
	}
}

// Nodes report why they wait, and get a shard when one is free.
func TestNodesThatWait(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shards int
		host   string
		why    string
		end    func(m *memory, first *node)
	}{
		"no layout": {0, "h2", "no layout", func(m *memory, _ *node) { m.setLayout(shard.Even(2)...) }},
		"spare":     {1, "h2", "spare", func(_ *memory, first *node) { first.end() }},
		"the same host": {2, "h1", "another process has this host name",
			func(_ *memory, first *node) { first.end() }},
		"the store is away": {1, "h2", "the store is away",
			func(m *memory, first *node) { first.end(); m.fails.Store(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemory(test.shards)
				first := start(t, m, "h1", nil)
				if name == "the store is away" {
					m.away()
				}
				var log bytes.Buffer
				n := start(t, m, test.host,
					func(o *shard.NodeOptions, _ *source) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				pass(2 * ttl)
				require.ErrorContains(t, n.Ready(), test.why)
				require.Equal(t, 1, strings.Count(log.String(), test.why), "it is logged once")
				require.Equal(t, shard.Response{}, n.ask(t, 2))
				runs, _ := n.source.ran()
				require.Empty(t, runs)
				test.end(m, first)
				pass(ttl)
				require.NoError(t, n.Ready())
			})
		})
	}
}

// A node that stops answers no longer before another can claim its shard.
func TestAnswersEndBeforeTheShardIsLeft(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(1)
			n := start(t, m, "h1", func(o *shard.NodeOptions, _ *source) { o.KeepServing = keep })
			released := func(op string) error {
				if op == "leave" {
					require.Equal(t, shard.Response{}, n.ask(t, 2))
				}
				return nil
			}
			m.after.Store(&released)
			n.end()
			<-n.ended
			require.Equal(t, 1, m.count("leave"))
		})
	}
}

// The claim ends while values are read: they may have been read before a pause of the process.
func TestTheClaimEndsDuringARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(1)
		n := start(t, m, "h1", func(_ *shard.NodeOptions, s *source) {
			s.run = serveOnce(func(ctx context.Context, keys []uint64) ([]shard.Entry[uint64, uint64], error) {
				<-time.After(ttl)
				return square(ctx, keys)
			})
		})
		require.True(t, n.ask(t, 2).AllMatched)
		m.away()
		require.Equal(t, shard.Response{}, n.ask(t, 2))
	})
}

// serveOnce is the run of a source that serves one Reader.
func serveOnce(r shard.Reader[uint64, uint64, uint64]) run {
	return func(ctx context.Context, _ shard.Interval, serve func(shard.Reader[uint64, uint64, uint64])) error {
		serve(r)
		<-ctx.Done()
		return nil
	}
}

// A source that fails is run again, after longer and longer pauses, while the claim is renewed. The last Reader answers
// meanwhile.
func TestLoads(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(1)
		gap, version := make(chan error), uint64(0)
		var fails atomic.Bool
		fails.Store(true)
		n := start(t, m, "h1", func(_ *shard.NodeOptions, s *source) {
			s.run = func(_ context.Context, _ shard.Interval, serve func(shard.Reader[uint64, uint64, uint64])) error {
				if fails.Load() {
					return errAway
				}
				version++
				now := version
				serve(func(context.Context, []uint64) ([]shard.Entry[uint64, uint64], error) {
					return []shard.Entry[uint64, uint64]{{Value: now}}, nil
				})
				return <-gap
			}
		})
		value := func() (v []shard.Entry[uint64, uint64]) {
			require.NoError(t, json.Unmarshal(n.ask(t, 2).Payload, &v))
			return v
		}
		pass(100 * ttl)
		require.ErrorContains(t, n.Ready(), "loading")
		require.Equal(t, "h1", m.holder(0))
		require.False(t, m.at(0).loaded)
		runs, _ := n.source.ran()
		require.InDelta(t, 100, len(runs), 20, "in 1000 s")
		fails.Store(false)
		pass(2 * ttl)
		require.NoError(t, n.Ready())
		require.True(t, m.at(0).loaded)
		require.EqualValues(t, 1, value()[0].Value)
		fails.Store(true)
		gap <- errAway
		pass(100 * ttl)
		require.NoError(t, n.Ready())
		require.EqualValues(t, 1, value()[0].Value)
		fails.Store(false)
		pass(4 * ttl)
		require.EqualValues(t, 2, value()[0].Value)
		gap <- nil // an end without an error is none
		pass(time.Second)
		require.EqualValues(t, 3, value()[0].Value)
		close(gap)
	})
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := start(t, newMemory(1), "h1", nil)
		for name, r := range map[string]shard.Request{
			"at most 10000":                   {Keys: make([]uint64, shard.MaxKeys+1), Payload: []byte(`[]`)},
			"unexpected end":                  {Keys: []uint64{1}},
			"invalid character":               {Keys: []uint64{1}, Payload: []byte(`x`)},
			"there are 1 keys and 0 sharding": {Payload: []byte(`[1]`)},
			"there are 1 keys and 2 sharding": {Keys: []uint64{1, 2}, Payload: []byte(`[1]`)},
			"sharding key 1 isn't that":       {Keys: []uint64{1, 2}, Payload: []byte(`[1,3]`)},
		} {
			r.Cache = "squares"
			got, err := n.Get(t.Context(), &r)
			require.ErrorIs(t, err, shard.ErrUndecodable)
			require.ErrorContains(t, err, name)
			require.Zero(t, got)
		}
	})
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*shard.NodeOptions){
		"host":              func(o *shard.NodeOptions) { o.Member.Host = "h 1" },
		"data centre":       func(o *shard.NodeOptions) { o.Member.DC = "" },
		"an address":        func(o *shard.NodeOptions) { o.Member.Address = "" },
		"claims":            func(o *shard.NodeOptions) { o.Claims = nil },
		"an interval of 5s": func(o *shard.NodeOptions) { o.PingPeriod = ttl / 2 },
		"a margin of -1ns":  func(o *shard.NodeOptions) { o.Margin = -1 },
	} {
		o := shard.NodeOptions{Member: shard.Member{DC: "a", Host: "h1", Address: "h1:1"}, Claims: newMemory(1)}
		change(&o)
		_, err := shard.NewNode(squares, &source{}, o)
		require.ErrorContains(t, err, name)
	}
}
