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
	fails atomic.Pointer[error] // replaces all calls; nil: no failures
	// is called after each call, outside of the lock: an error replaces its reply
	after atomic.Pointer[func(op string) error]
	ahead atomic.Int64 // how much the store's clock was set forward

	// travel returns the delay of a host's request, the delay of its reply, and the time after which the request
	// arrives again. nil: no delays; 0: it doesn't arrive again.
	travel func(host string) (there, back, again time.Duration)
	drift  float64 // factor by which the store's clock is faster than those of the nodes, since began
	began  time.Time

	mu       sync.Mutex
	layout   shard.Layout
	unsure   time.Time // until when no shard is given out
	claims   []claim   // by shard
	former   []claim   // of earlier layouts
	over     []string  // tokens that have had a shard which another token has now
	last     uint64    // incarnation
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
	m := &memory{began: time.Now()}
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

// setLayout sets another layout of the data centre.
func (m *memory) setLayout(starts ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layout = shard.Layout{Generation: m.layout.Generation + 1, Starts: starts}
	m.former, m.claims = append(m.former, m.claims...), make([]claim, len(starts))
	m.notify()
}

func (m *memory) now() time.Time {
	drifted := float64(time.Since(m.began)) * m.drift
	return time.Now().Add(time.Duration(m.ahead.Load()) + time.Duration(drifted))
}

// remaining returns the remaining time of a claim.
func (m *memory) remaining(c claim) time.Duration { return c.until.Sub(m.now()) }

func (m *memory) notify() {
	for _, freed := range m.watchers {
		(*freed)()
	}
}

// do executes an operation, if the store is reachable.
func (m *memory) do(ctx context.Context, who shard.Member, op string, effect func() (shard.Claimed, error)) (
	shard.Claimed, error) {
	if err := m.fails.Load(); err != nil {
		return shard.Claimed{}, *err
	}
	if m.travel == nil {
		return m.arrive(op, effect)
	}
	there, back, again := m.travel(who.Host)
	type reply struct {
		c   shard.Claimed
		err error
	}
	replies := make(chan reply, 1)
	go func() {
		if there > 0 {
			<-time.After(there)
			c, err := m.arrive(op, effect)
			<-time.After(back)
			replies <- reply{c, err}
		}
		if again > 0 {
			<-time.After(again)
			_, _ = m.arrive(op, effect)
		}
	}()
	select {
	case r := <-replies:
		return r.c, r.err
	case <-ctx.Done():
		return shard.Claimed{}, ctx.Err()
	}
}

func (m *memory) arrive(op string, effect func() (shard.Claimed, error)) (shard.Claimed, error) {
	m.mu.Lock()
	m.calls = append(m.calls, op)
	c, err := effect()
	m.mu.Unlock()
	if after := m.after.Load(); after != nil {
		if lost := (*after)(op); lost != nil {
			return shard.Claimed{}, lost
		}
	}
	return c, err
}

func (m *memory) Claim(ctx context.Context, who shard.Member, token string, ttl time.Duration, last shard.Claimed) (
	shard.Claimed, error) {
	return m.do(ctx, who, "claim", func() (shard.Claimed, error) {
		if len(m.layout.Starts) == 0 {
			if len(last.Starts) == 0 {
				return shard.Claimed{}, shard.ErrNoLayout
			}
			m.layout = shard.Layout{Generation: last.Generation, Starts: last.Starts}
			m.claims, m.unsure = make([]claim, len(last.Starts)), m.now().Add(ttl)
		}
		own := slices.IndexFunc(m.claims, func(c claim) bool { return c.host == who.Host && m.remaining(c) > 0 })
		found := slices.IndexFunc(m.claims, func(c claim) bool { return c.token == token })
		former := slices.IndexFunc(m.former, func(c claim) bool { return m.remaining(c) > 0 })
		switch {
		case former >= 0:
			return shard.Claimed{}, &lease.HeldError{For: m.remaining(m.former[former])}
		case found < 0 && slices.Contains(m.over, token), found >= 0 && m.remaining(m.claims[found]) <= 0:
			return shard.Claimed{}, lease.ErrLost
		case found >= 0:
			m.claims[found].until = m.now().Add(ttl)
			return m.claims[found].Claimed, nil
		case own >= 0:
			return shard.Claimed{}, errors.Join(shard.ErrSameHost, &lease.HeldError{For: m.remaining(m.claims[own])})
		}
		if wait := m.unsure.Sub(m.now()); wait > 0 {
			return shard.Claimed{}, errors.Join(shard.ErrUnsure, &lease.HeldError{For: wait})
		}
		if found = m.choose(who.Host, last); found < 0 {
			next := slices.MinFunc(m.claims, func(a, b claim) int { return a.until.Compare(b.until) })
			return shard.Claimed{}, &lease.HeldError{For: m.remaining(next)}
		}
		m.last++
		c := shard.Claimed{Shard: found, Interval: m.layout.Interval(found), Generation: m.layout.Generation,
			Starts: m.layout.Starts, Incarnation: m.last}
		m.over = append(m.over, m.claims[found].token)
		m.claims[found] = claim{Claimed: c, host: who.Host, token: token, until: m.now().Add(ttl)}
		return c, nil
	})
}

// choose returns the free shard that a host had last, or else the shard that has been free the longest; -1: none is
// free.
func (m *memory) choose(host string, last shard.Claimed) int {
	found := -1
	if known := slices.ContainsFunc(m.claims, func(c claim) bool { return c.host == host }); !known &&
		last.Generation == m.layout.Generation && slices.Equal(last.Starts, m.layout.Starts) &&
		m.remaining(m.claims[last.Shard]) <= 0 {
		return last.Shard
	}
	for i, c := range m.claims {
		switch {
		case m.remaining(c) > 0:
		case c.host == host:
			return i
		case found < 0 || c.until.Before(m.claims[found].until):
			found = i
		}
	}
	return found
}

func (m *memory) Ping(ctx context.Context, who shard.Member, token string, ttl time.Duration, loaded bool) error {
	return m.change(ctx, who, "ping", token, func(c *claim) error {
		if c.Generation != m.layout.Generation {
			return shard.ErrMoved
		}
		c.until, c.loaded = m.now().Add(ttl), loaded
		return nil
	})
}

func (m *memory) Leave(ctx context.Context, who shard.Member, token string) error {
	return m.change(ctx, who, "leave", token, func(c *claim) error {
		c.until = time.Time{}
		m.notify()
		return nil
	})
}

// change changes the claim of a token.
func (m *memory) change(ctx context.Context, who shard.Member, op, token string, change func(c *claim) error) error {
	_, err := m.do(ctx, who, op, func() (shard.Claimed, error) {
		for _, claims := range [][]claim{m.claims, m.former} {
			if i := slices.IndexFunc(claims, func(c claim) bool { return c.token == token && m.remaining(c) > 0 }); i >= 0 {
				return shard.Claimed{}, change(&claims[i])
			}
		}
		return shard.Claimed{}, lease.ErrLost
	})
	return err
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

// give makes another host the holder of a shard, like a fail-over that lost its claim; "": no host.
func (m *memory) give(i int, host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims[i] = claim{}
	if host != "" {
		m.last++
		c := shard.Claimed{Generation: m.layout.Generation, Incarnation: m.last}
		m.claims[i] = claim{host: host, token: host, until: time.Now().Add(time.Hour), Claimed: c}
	}
}

// failOver makes the store lose all its claims, as in a fail-over.
func (m *memory) failOver() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.claims, m.unsure = make([]claim, len(m.claims)), m.now().Add(ttl)
}

// flush makes the store lose everything, the layout too.
func (m *memory) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.layout, m.claims, m.former, m.last = shard.Layout{}, nil, nil, 10
}

// holder returns the host that holds a shard, or "".
func (m *memory) holder(i int) string {
	if c := m.at(i); m.remaining(c) > 0 {
		return c.host
	}
	return ""
}
