package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// acquire asks for a lease, repeatedly if it is held and wait is set.
func (m *Manager) acquire(ctx context.Context, name string, wait bool) (h *held, err error) {
	ask := func(ctx context.Context) error {
		h, err = m.ask(ctx, name)
		return err
	}
	if !wait {
		err = ask(ctx)
		return h, err
	}
	return h, repeat(ctx, m.store, Request{Name: name, TTL: m.ttl}, ask)
}

// repeat calls ask again whenever a lease may have become free, while it returns a *HeldError. It returns the cause of
// ctx if that ends meanwhile.
func repeat(ctx context.Context, store Watcher, r Request, ask func(context.Context) error) error {
	var freed chan struct{} // buffered (capacity 1); nil: the lease isn't watched
	for {
		err := ask(ctx)
		var other *HeldError
		if !errors.As(err, &other) {
			return err
		}
		if freed == nil {
			freed = make(chan struct{}, 1)
			defer store.Watch(r.Name, func() { pace.Signal(freed) })()
		}
		if err := await(ctx, freed, min(other.For, r.TTL)+pollDelay(r.TTL)); err != nil {
			return err
		}
	}
}

// Line queues the calls of a process that ask for the same lease on behalf of callers outside of it: any number of them
// costs the store as much as one. Its zero value is ready.
type Line struct{ turns turns }

// Wait calls ask when it is the caller's turn, and again whenever the lease r.Name may have become free, while it
// returns ErrHeld. It asks at least once in r.TTL. Errors: that of ask, and the cause of ctx if that ends first.
func (l *Line) Wait(ctx context.Context, store Watcher, r Request, ask func(context.Context) error) error {
	release, err := l.turns.acquire(ctx, r.Name, true)
	if err != nil {
		return err
	}
	defer release()
	return repeat(ctx, store, r, ask)
}

// await returns when a lease may be free, or after limit. It returns the cause of ctx if that ends.
func await(ctx context.Context, freed <-chan struct{}, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-freed:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// ask asks for a lease once. If it isn't known whether the lease was granted, it is released.
func (m *Manager) ask(ctx context.Context, name string) (*held, error) {
	sent := time.Now()
	limited, cancel := context.WithTimeout(ctx, m.usable)
	defer cancel()
	r := Request{Name: name, Token: rand.Text(), TTL: m.ttl}
	fence, err := m.store.Acquire(limited, r)
	if errors.Is(err, ErrHeld) || errors.Is(err, ErrRefused) {
		return nil, err
	}
	h := &held{request: r, fence: fence, usable: m.usable, deadline: sent.Add(m.usable), due: sent.Add(m.every)}
	switch {
	case err == nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case err == nil && !time.Now().Before(h.deadline):
		err = fmt.Errorf("%w: the store took too long to grant it", ErrLost)
	}
	if err != nil {
		m.release(ctx, h)
		return nil, err
	}
	return h, nil
}

// pollDelay returns how long after the end of another holder's lease a waiter asks for it, with jitter.
func pollDelay(ttl time.Duration) time.Duration {
	least := max(ttl/100, time.Millisecond)
	return least + mathrand.N(ttl/20) //nolint:gosec // it spreads load and isn't for security
}

// turns queues the calls of a process that want the same lease. Its zero value is ready.
type turns struct {
	mu    sync.Mutex
	names map[string]*turn
}

type turn struct {
	taken chan struct{} // buffered (capacity 1)
	calls int           // that have the turn or wait for it
}

// acquire waits for the turn, or returns ErrHeld if wait isn't set and another call has it. release ends the turn.
func (t *turns) acquire(ctx context.Context, name string, wait bool) (release func(), err error) {
	mine := t.enter(name)
	if !wait {
		select {
		case mine.taken <- struct{}{}:
			return func() { t.release(name, mine) }, nil
		default:
			t.exit(name, mine)
			return nil, ErrHeld
		}
	}
	select {
	case mine.taken <- struct{}{}:
		return func() { t.release(name, mine) }, nil
	case <-ctx.Done():
		t.exit(name, mine)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) enter(name string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.names[name]
	if mine == nil {
		if t.names == nil {
			t.names = map[string]*turn{}
		}
		mine = &turn{taken: make(chan struct{}, 1)}
		t.names[name] = mine
	}
	mine.calls++
	return mine
}

func (t *turns) release(name string, mine *turn) {
	<-mine.taken
	t.exit(name, mine)
}

func (t *turns) exit(name string, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.calls--; mine.calls == 0 {
		delete(t.names, name)
	}
}
