package lease_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/lease"
)

// memory is a lease.Store in memory. Set its functions before it is used; they simulate failures.
type memory struct {
	// now is the clock of the store; nil: time.Now.
	now func() time.Time
	// before is called before a request has an effect, and after before its reply arrives: an error takes the place of
	// the reply. nil: no failures.
	before, after func(ctx context.Context, op, name string) error
	// travel returns the delay of a request, which arrives even if its caller no longer waits. If again isn't zero, it
	// arrives again later. nil: requests arrive at once.
	travel func() (first, again time.Duration)

	mu       sync.Mutex
	entries  map[string]entry
	watchers map[string][]*func()
	calls    map[string]int // by operation
	renewed  int            // leases
}

type entry struct {
	fence uint64
	token string
	until time.Time
}

func (m *memory) clock() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

// do executes a request, unless before fails. effect is called with mu held.
func (m *memory) do(ctx context.Context, op, name string, effect func(e *entry) error) error {
	if m.before != nil {
		if err := m.before(ctx, op, name); err != nil {
			return err
		}
	}
	err := m.arrive(ctx, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.entries == nil {
			m.entries = map[string]entry{}
		}
		e := m.entries[name]
		defer func() { m.entries[name] = e }()
		return effect(&e)
	})
	if m.after != nil {
		if lost := m.after(ctx, op, name); lost != nil {
			return lost
		}
	}
	return err
}

// arrive executes a request when it arrives.
func (m *memory) arrive(ctx context.Context, request func() error) error {
	if m.travel == nil {
		return request()
	}
	first, again := m.travel()
	done := make(chan error, 1)
	go func() {
		<-time.After(first)
		done <- request()
		if again > 0 {
			<-time.After(again)
			_ = request() // the reply is lost
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *memory) count(op string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == nil {
		m.calls = map[string]int{}
	}
	m.calls[op]++
}

func (m *memory) counted(op string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[op]
}

func (m *memory) Acquire(ctx context.Context, r lease.Request) (fence uint64, err error) {
	m.count("acquire")
	granted := make(chan uint64, 2)
	err = m.do(ctx, "acquire", r.Name, func(e *entry) error {
		now := m.clock()
		switch {
		case !now.Before(e.until):
			e.fence = max(e.fence+1, uint64(now.UnixMicro()))
		case e.token != r.Token:
			return &lease.HeldError{For: e.until.Sub(now)}
		}
		e.token, e.until = r.Token, now.Add(r.TTL)
		granted <- e.fence
		return nil
	})
	if err != nil {
		return 0, err
	}
	return <-granted, nil
}

func (m *memory) Renew(ctx context.Context, rs []lease.Request) []error {
	m.count("renew")
	errs := make([]error, len(rs))
	var all sync.WaitGroup
	for i, r := range rs {
		all.Go(func() {
			errs[i] = m.do(ctx, "renew", r.Name, func(e *entry) error {
				now := m.clock()
				if e.token != r.Token || !now.Before(e.until) {
					return lease.ErrLost
				}
				e.until = now.Add(r.TTL)
				m.renewed++
				return nil
			})
		})
	}
	all.Wait()
	return errs
}

func (m *memory) Release(ctx context.Context, name, token string) error {
	m.count("release")
	return m.do(ctx, "release", name, func(e *entry) error {
		if e.token != token || !e.until.IsZero() && !m.clock().Before(e.until) {
			return lease.ErrLost
		}
		if !e.until.IsZero() {
			e.until = time.Time{}
			for _, freed := range m.watchers[name] {
				(*freed)()
			}
		}
		return nil
	})
}

func (m *memory) Watch(name string, freed func()) (stop func()) {
	m.count("watch")
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watchers == nil {
		m.watchers = map[string][]*func(){}
	}
	m.watchers[name] = append(m.watchers[name], &freed)
	freed()
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.watchers[name] = slices.DeleteFunc(m.watchers[name], func(f *func()) bool { return f == &freed })
	}
}

// grant grants a lease to another holder.
func (m *memory) grant(name string, ttl time.Duration) (token string) {
	token = "another"
	if _, err := m.Acquire(context.Background(), lease.Request{Name: name, Token: token, TTL: ttl}); err != nil {
		panic(err)
	}
	return token
}

// token returns the token that holds a lease, or "" if it was released.
func (m *memory) token(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries[name].until.IsZero() {
		return ""
	}
	return m.entries[name].token
}

// seize ends a lease in the store, like a fail-over that lost it.
func (m *memory) seize(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[name] = entry{}
}
