package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"
)

// acquire asks for a lease, again and again if it is held and wait is set.
func (m *Manager) acquire(ctx context.Context, name string, wait bool) (*held, error) {
	var freed chan struct{} // buffered (capacity 1); nil: the lease isn't watched
	for {
		h, err := m.ask(ctx, name)
		var other *HeldError
		if err == nil || !wait || !errors.As(err, &other) {
			return h, err
		}
		if freed == nil {
			freed = make(chan struct{}, 1)
			defer m.store.Watch(name, func() { signal(freed) })()
		}
		if err := await(ctx, freed, min(other.For, m.ttl)+m.pollDelay()); err != nil {
			return nil, err
		}
	}
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

// pollDelay is how long after the end of another's lease a waiter asks for it. Waiters differ.
func (m *Manager) pollDelay() time.Duration {
	least := max(m.ttl/100, time.Millisecond)
	return least + mathrand.N(m.ttl/20) //nolint:gosec // it isn't a secret
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// turns lets the calls of a process that want the same lease go one after the other. Its zero value is ready.
type turns struct {
	mu    sync.Mutex
	names map[string]*turn
}

type turn struct {
	taken chan struct{} // buffered (capacity 1)
	calls int           // that have the turn or wait for it
}

// take waits for the turn, or returns ErrHeld if wait isn't set and another call has it. leave ends the turn.
func (t *turns) take(ctx context.Context, name string, wait bool) (leave func(), err error) {
	mine := t.enter(name)
	if !wait {
		select {
		case mine.taken <- struct{}{}:
			return func() { t.leave(name, mine) }, nil
		default:
			t.exit(name, mine)
			return nil, ErrHeld
		}
	}
	select {
	case mine.taken <- struct{}{}:
		return func() { t.leave(name, mine) }, nil
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

func (t *turns) leave(name string, mine *turn) {
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
