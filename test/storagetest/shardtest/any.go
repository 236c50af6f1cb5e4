package shardtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
)

// anyOrder sends requests of any process at any time, also late ones and repeats, and lets time pass, the store's clock
// be set back, and claims be lost in fail-overs. It checks the answers against a model.
func anyOrder(s *subject) {
	n := 0
	rapid.Check(s, func(t *rapid.T) {
		n++
		w := &world{T: t, s: s, cache: fmt.Sprint("any", n), all: map[string]*process{}}
		w.set()
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(*rapid.T) { w.claim(w.any()) }, "ping": func(*rapid.T) { w.ping(w.any()) },
			"leave": func(*rapid.T) { w.leave(w.any()) },
			"pass":  func(*rapid.T) { w.pass(rapid.IntRange(1, 4).Draw(t, "quarters")) },
			"back":  func(*rapid.T) { w.back(rapid.IntRange(1, 9).Draw(t, "quarters")) },
			"set":   func(*rapid.T) { w.set() },
			"lose":  func(*rapid.T) { w.lose() },
		})
		w.end()
	})
}

// world is a model of a data centre.
type world struct {
	*rapid.T
	s      *subject
	cache  string
	layout shard.Layout
	now    int // quarters of a TTL that have passed
	losses int
	all    map[string]*process
}

// process is a node, which has a token.
type process struct {
	shard.Member
	token string
	got   *shard.Claimed // its latest granted claim, which it may still hold; nil: none
	ends  int            // the earliest end of its claim
	over  bool           // it has left, or another process has had the shard since
	lost  bool           // its claim was lost: it makes no more requests
}

func (w *world) any() *process {
	host := rapid.SampledFrom([]string{"h0", "h1", "h2", "h3", "h4"}).Draw(w.T, "host")
	token := host + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(w.T, "process")
	if w.all[token] == nil {
		w.all[token] = &process{Member: shard.Member{Cache: w.cache, DC: dc, Host: host, Address: host + ":1"},
			token: token}
	}
	return w.all[token]
}

// alive reports whether a process may still hold its shard, as far as it knows.
func (w *world) alive(p *process) bool { return p.got != nil && !p.over && w.now < p.ends }

func (w *world) claim(p *process) {
	c, err := w.s.store.Claim(w.s.Context(), p.Member, p.token, ttl, shard.Claimed{})
	if err != nil {
		require.True(w, errors.Is(err, lease.ErrHeld) || errors.Is(err, lease.ErrLost), err)
		return
	}
	require.False(w, p.over, "%s has lost its shard", p.token)
	if p.got != nil {
		require.Equal(w, *p.got, c, "a token has one shard")
	}
	require.Equal(w, w.layout.Generation, c.Generation)
	require.Equal(w, w.layout.Interval(c.Shard), c.Interval)
	for _, other := range w.all {
		if other == p || other.got == nil {
			continue
		}
		overlap := other.got.Interval.Contains(c.Interval.First) || c.Interval.Contains(other.got.Interval.First)
		require.False(w, w.alive(other) && (overlap || other.Host == p.Host), "%s and %s", p.token, other.token)
		if other.got.Shard == c.Shard && p.got == nil {
			require.Greater(w, c.Incarnation, other.got.Incarnation)
		}
		other.over = other.over || overlap // from now on
		if other.Host == p.Host {
			delete(w.all, other.token) // forgotten: another process has the host's name
		}
	}
	p.got, p.ends = &c, w.now+4
}

func (w *world) ping(p *process) {
	err := w.s.store.Ping(w.s.Context(), p.Member, p.token, ttl, true)
	if err != nil {
		require.ErrorIs(w, err, lease.ErrLost)
		require.False(w, w.alive(p) && p.got.Generation == w.layout.Generation, "%s is alive", p.token)
		return
	}
	require.True(w, p.got != nil && !p.over && p.got.Generation == w.layout.Generation, "%s has lost its shard",
		p.token)
	p.ends = w.now + 4
}

func (w *world) leave(p *process) {
	err := w.s.store.Leave(w.s.Context(), p.Member, p.token)
	if err != nil {
		require.ErrorIs(w, err, lease.ErrLost)
		require.False(w, w.alive(p), "%s is alive", p.token)
		return
	}
	p.over = true
}

func (w *world) set() {
	shards := rapid.IntRange(1, 4).Draw(w.T, "shards")
	l, err := w.s.store.SetLayout(w.s.Context(), w.cache, dc, w.layout.Generation, shard.Even(shards))
	if err != nil {
		require.ErrorIs(w, err, shard.ErrInUse)
		return
	}
	for _, p := range w.all {
		require.False(w, w.alive(p) && !p.lost && p.got.Generation != w.layout.Generation, "%s is alive", p.token)
	}
	w.layout = l
}

func (w *world) pass(quarters int) {
	w.now += quarters
	require.NoError(w, w.s.h.Pass(w.s.Context(), w.cache, dc, time.Duration(quarters)*ttl/4))
}

func (w *world) back(quarters int) {
	require.NoError(w, w.s.h.Pass(w.s.Context(), w.cache, dc, -time.Duration(quarters)*ttl/4))
}

// lose loses the claims of a host. Its processes may consider their claims valid until they end.
func (w *world) lose() {
	host := w.any().Host
	w.losses++
	for _, token := range slices.Collect(maps.Keys(w.all)) {
		if p := w.all[token]; p.Host == host {
			delete(w.all, token)
			p.token, p.lost = fmt.Sprint("lost ", w.losses, token), true
			w.all[p.token] = p
		}
	}
	require.NoError(w, w.s.h.Lose(w.s.Context(), w.cache, dc, host))
}

// end expects all shards to be free a TTL after the last request, or half a TTL later if claims were lost.
func (w *world) end() {
	last := shard.Member{Cache: w.cache, DC: dc, Host: "last0", Address: "last:1"}
	_, err := w.s.store.Claim(w.s.Context(), last, "last0", ttl, shard.Claimed{})
	require.True(w, err == nil || errors.Is(err, lease.ErrHeld), err)
	w.pass(4 + 2*min(w.losses, 1))
	for i := range w.layout.Starts {
		last.Host = fmt.Sprint("last", i+1)
		_, err := w.s.store.Claim(w.s.Context(), last, "last", ttl, shard.Claimed{})
		require.NoError(w, err)
	}
}
