package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
)

// weather describes the faults between nodes and the store, and in the nodes.
type weather struct {
	seed   uint64
	drift  float64 // how much faster the store's clock is
	slow   float64 // the share of requests, and of replies, that take seconds
	again  float64 // the share of requests that arrive a second time, later
	cut    float64 // the share of periods in which a node's requests don't arrive
	paused float64 // the share of reads that take longer than a claim lasts
}

// TestNoTwoNodesAnswerForAShard simulates more nodes than shards, and a store whose requests are delayed, lost or
// repeated.
func TestNoTwoNodesAnswerForAShard(t *testing.T) {
	t.Parallel()
	share := rapid.SampledFrom([]float64{0, 0.1, 0.4})
	rapid.Check(t, func(rt *rapid.T) {
		w := weather{
			seed: rapid.Uint64().Draw(rt, "seed"), drift: rapid.Float64Range(-0.05, 0.05).Draw(rt, "drift"),
			slow:  share.Draw(rt, "slow"),
			again: share.Draw(rt, "again"), cut: share.Draw(rt, "cut"), paused: share.Draw(rt, "paused"),
		}
		var faults []string
		synctest.Test(t, func(t *testing.T) { faults = simulate(t, w) })
		if len(faults) > 0 {
			rt.Fatal(strings.Join(faults, "\n"))
		}
	})
}

// simulate lets three nodes compete for two shards for two minutes, and returns the violations.
func simulate(t *testing.T, w weather) []string {
	t.Helper()
	const nodes, length = 3, 2 * time.Minute
	s := &simulation{dice: newDice(w.seed, 0), weather: w, began: time.Now(), store: newMemory(2),
		records: map[string][]event{}}
	s.store.drift, s.store.travel = w.drift, s.travel
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for host := range nodes {
		all.Go(func() {
			for life := 0; ctx.Err() == nil; life++ {
				s.live(ctx, t, fmt.Sprintf("h%d-%d", host, life), fmt.Sprintf("h%d", host))
			}
		})
	}
	all.Wait()
	<-time.After(10 * ttl) // for requests that are on their way
	faults := checkRecords(s.records)
	if w == (weather{seed: w.seed}) && s.reads.Load() < 500 {
		faults = append(faults, fmt.Sprintf("only %d reads while nothing went wrong", s.reads.Load()))
	}
	return faults
}

type simulation struct {
	*dice
	weather weather
	store   *memory
	began   time.Time
	reads   atomic.Int64

	mu      sync.Mutex
	records map[string][]event // by node
}

func (s *simulation) travel(host string) (there, back, again time.Duration) {
	there, back = s.duration(20*time.Millisecond), s.duration(20*time.Millisecond)
	if s.is(s.weather.again) {
		again = s.duration(3 * ttl)
	}
	period := uint64(host[1]) + 256*uint64(time.Since(s.began)/(2*ttl))
	if newDice(s.weather.seed, period).is(s.weather.cut) {
		return 0, 0, again
	}
	if s.is(s.weather.slow) {
		there = s.duration(ttl / 2)
	}
	if s.is(s.weather.slow) {
		back = s.duration(ttl / 2)
	}
	return there, back, again
}

// live runs a node until it loses its shard or is stopped, and queries it all the time.
func (s *simulation) live(ctx context.Context, t *testing.T, name, host string) {
	t.Helper()
	r := &recorder{
		DC: "a",
		At: func(t time.Time) time.Duration { return t.Sub(s.began) },
		Write: func(e event) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.records[name] = append(s.records[name], e)
		},
		Pause: func(context.Context) {
			if s.is(s.weather.paused / 10) {
				<-time.After(s.duration(2 * ttl))
			}
		},
	}
	n, err := shard.NewNode(times, r, shard.NodeOptions{
		Member: shard.Member{DC: "a", Host: host, Address: host + ":1"}, Claims: s.store, PingPeriod: ping, TTL: ttl,
		Margin: margin, Observer: r,
	})
	if err != nil {
		t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.duration(8*ttl))
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		defer cancel()
		if err := n.Run(ctx); err != nil && !errors.Is(err, lease.ErrLost) {
			t.Error(err)
		}
	})
	for ctx.Err() == nil {
		answered, err := r.Ask(ctx, n)
		if err != nil {
			t.Error(err)
		}
		if answered {
			s.reads.Add(1)
		}
		<-time.After(s.duration(ping / 2))
	}
}

// dice is a source of chance for many goroutines.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

func newDice(seed, stream uint64) *dice { return &dice{random: rand.New(rand.NewPCG(seed, stream))} }

func (d *dice) is(share float64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.Float64() < share
}

func (d *dice) duration(limit time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.random.Int64N(int64(limit)))
}
