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
	fails atomic.Pointer[error] // takes the place of all calls; nil: nothing goes wrong

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
	m.setLayout(shard.Even(shards)...)
	return m
}

// setLayout gives the data centre another layout. Earlier claims are over at once.
func (m *memory) setLayout(starts ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layout = shard.Layout{Generation: m.layout.Generation + 1, Starts: starts}
	m.claims = make([]claim, len(starts))
	m.notify()
}

func (m *memory) notify() {
	for _, freed := range m.watchers {
		(*freed)()
	}
}

// do carries out an operation, unless it fails before.
func (m *memory) do(op string, effect func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, op)
	if err := m.fails.Load(); err != nil {
		return *err
	}
	return effect()
}

func (m *memory) Claim(_ context.Context, who shard.Member, token string, ttl time.Duration) (c shard.Claimed, err error) {
	err = m.do("claim", func() error {
		if len(m.layout.Starts) == 0 {
			return shard.ErrNoLayout
		}
		found := m.choose(who.Host)
		if i := slices.IndexFunc(m.claims, func(c claim) bool { return c.token == token }); i >= 0 {
			found = i
			if time.Until(m.claims[i].until) <= 0 {
				return lease.ErrLost
			}
		} else if i := slices.IndexFunc(m.claims, func(c claim) bool { return c.host == who.Host && time.Until(c.until) > 0 }); i >= 0 {
			return errors.Join(shard.ErrSameHost, &lease.HeldError{For: time.Until(m.claims[i].until)})
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
		held.host, held.token, held.until = who.Host, token, time.Now().Add(ttl)
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
		case time.Until(c.until) > 0:
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
		return m.of(token, func(c *claim) { c.until, c.loaded = time.Now().Add(ttl), loaded })
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
		if c := &m.claims[i]; c.token == token && time.Until(c.until) > 0 {
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
	if c := m.at(i); time.Until(c.until) > 0 {
		return c.host
	}
	return ""
}
