package shard_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/shard"
)

var errAway = errors.New("the store is away")

// memory is shard.Claims in memory, for one data centre.
type memory struct {
	fails atomic.Pointer[error]                 // takes the place of all calls; nil: nothing goes wrong
	after atomic.Pointer[func(op string) error] // is called after each call, outside of the lock: an error takes the place of its reply
	ahead atomic.Int64                          // how much the store's clock was set forward

	mu       sync.Mutex
	layout   shard.Layout
	claims   []claim // by shard
	last     uint64  // incarnation
	watchers []*func()
	calls    []string
}

type claim struct {
	shard.Claimed
	host, token string
	until       time.Time
	loaded      bool
}

func newMemory(shards int) *memory {
	m := &memory{}
	if shards > 0 {
		m.setLayout(shard.Even(shards)...)
	}
	return m
}

// count returns how often an operation had an effect.
func (m *memory) count(op string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, call := range m.calls {
		if call == op {
			n++
		}
	}
	return n
}

// setLayout gives the data centre another layout. Earlier claims are over at once.
func (m *memory) setLayout(starts ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layout = shard.Layout{Generation: m.layout.Generation + 1, Starts: starts}
	m.claims = make([]claim, len(starts))
	m.notify()
}

func (m *memory) now() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }

// left returns how long a claim lasts.
func (m *memory) left(c claim) time.Duration { return c.until.Sub(m.now()) }

func (m *memory) notify() {
	for _, freed := range m.watchers {
		(*freed)()
	}
}

// do carries out an operation, unless it fails before.
func (m *memory) do(op string, effect func() error) error {
	if err := m.fails.Load(); err != nil {
		return *err
	}
	m.mu.Lock()
	m.calls = append(m.calls, op)
	err := effect()
	m.mu.Unlock()
	if after := m.after.Load(); after != nil {
		if lost := (*after)(op); lost != nil {
			return lost
		}
	}
	return err
}

func (m *memory) Claim(_ context.Context, who shard.Member, token string, ttl time.Duration) (c shard.Claimed, err error) {
	err = m.do("claim", func() error {
		if len(m.layout.Starts) == 0 {
			return shard.ErrNoLayout
		}
		found := m.choose(who.Host)
		if i := slices.IndexFunc(m.claims, func(c claim) bool { return c.token == token }); i >= 0 {
			found = i
			if m.left(m.claims[i]) <= 0 {
				return lease.ErrLost
			}
		} else if i := slices.IndexFunc(m.claims, func(c claim) bool { return c.host == who.Host && m.left(c) > 0 }); i >= 0 {
			return errors.Join(shard.ErrSameHost, &lease.HeldError{For: m.left(m.claims[i])})
		} else if found < 0 {
			return &lease.HeldError{For: ttl}
		} else {
			m.last++
		}
		held := &m.claims[found]
		held.Shard, held.Interval, held.Generation = found, m.layout.Interval(found), m.layout.Generation
		if held.token != token {
			held.Incarnation, held.loaded = m.last, false
		}
		held.host, held.token, held.until = who.Host, token, m.now().Add(ttl)
		c = held.Claimed
		return nil
	})
	return c, err
}

// choose returns the free shard that a host had last, or else the one that is free the longest; -1: none is.
func (m *memory) choose(host string) int {
	found := -1
	for i, c := range m.claims {
		switch {
		case m.left(c) > 0:
		case c.host == host:
			return i
		case found < 0 || c.until.Before(m.claims[found].until):
			found = i
		}
	}
	return found
}

func (m *memory) Ping(_ context.Context, _ shard.Member, token string, ttl time.Duration, loaded bool) error {
	return m.do("ping", func() error {
		return m.of(token, func(c *claim) { c.until, c.loaded = m.now().Add(ttl), loaded })
	})
}

func (m *memory) Leave(_ context.Context, _ shard.Member, token string) error {
	return m.do("leave", func() error {
		return m.of(token, func(c *claim) {
			c.until = time.Time{}
			m.notify()
		})
	})
}

// of changes the claim of a token.
func (m *memory) of(token string, change func(c *claim)) error {
	for i := range m.claims {
		if c := &m.claims[i]; c.token == token && m.left(*c) > 0 {
			change(c)
			return nil
		}
	}
	return lease.ErrLost
}

func (m *memory) Watch(_, _ string, freed func()) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(m.watchers, &freed)
	freed()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers = slices.DeleteFunc(m.watchers, func(f *func()) bool { return f == &freed })
	}
}

// at returns the claim of a shard.
func (m *memory) at(i int) claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims[i]
}

// give makes another host the holder of a shard, as a fail-over that lost its claim does; "": nobody.
func (m *memory) give(i int, host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims[i] = claim{}
	if host != "" {
		m.last++
		m.claims[i] = claim{host: host, token: host, until: time.Now().Add(time.Hour), Claimed: shard.Claimed{Incarnation: m.last}}
	}
}

// holder returns the host that holds a shard, or "".
func (m *memory) holder(i int) string {
	if c := m.at(i); m.left(c) > 0 {
		return c.host
	}
	return ""
}
