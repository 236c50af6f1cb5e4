package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// DefaultTTL is the TTL of leases unless Options say otherwise.
const DefaultTTL = 10 * time.Second

const (
	minTTL         = 50 * time.Millisecond
	releaseTimeout = time.Second
)

// Options configure a Manager. The zero value of a field means its default.
type Options struct {
	// TTL is how long a lease lasts after its last renewal, and so how long others wait for a lease whose holder died.
	// Default: 10 s. At least 50 ms.
	TTL time.Duration
	// Renew is the interval between two renewals. Default: a third of TTL. At most half of what Margin leaves of TTL.
	Renew time.Duration
	// Margin is how long before the lease ends in the store its holder considers it lost. It must be longer than a
	// function needs to return after its context is canceled, and covers clocks of different rates. Default: a tenth of
	// TTL.
	Margin time.Duration
	// Logger gets a message when renewals begin to fail and when they succeed again. Default: nothing is logged.
	Logger *slog.Logger
}

// Manager holds the leases of one process. Its methods may be called by many goroutines.
type Manager struct {
	store  Store
	ttl    time.Duration
	every  time.Duration // between renewals
	usable time.Duration // TTL without the margin
	log    *slog.Logger
	turns  turns

	mu       sync.Mutex
	held     map[*held]struct{}
	renewing bool          // the goroutine of renewHeld runs
	wake     time.Time     // when it checks the leases next
	changed  chan struct{} // buffered (capacity 1): look now
}

// NewManager returns a Manager. It returns an error if the options contradict each other.
func NewManager(store Store, o Options) (*Manager, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Renew == 0 {
		o.Renew = o.TTL / 3
	}
	if o.Margin == 0 {
		o.Margin = o.TTL / 10
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	usable := o.TTL - o.Margin
	switch {
	case o.TTL < minTTL:
		return nil, fmt.Errorf("lease: a TTL of %v is shorter than %v", o.TTL, minTTL)
	case o.Margin < 0 || o.Renew < 0 || o.Renew > usable/2:
		return nil, fmt.Errorf(
			"lease: an interval of %v and a margin of %v don't fit into a TTL of %v: two intervals and the margin must",
			o.Renew, o.Margin, o.TTL)
	}
	return &Manager{
		store: store, ttl: o.TTL, every: o.Renew, usable: usable, log: o.Logger,
		held: map[*held]struct{}{}, changed: make(chan struct{}, 1),
	}, nil
}

// Hold waits for a lease and calls f while it is held. f must return soon after its context is canceled: when ctx ends,
// or, with ErrLost as the cause, when the lease is lost. Until f returns the lease is renewed, also after ctx has
// ended. Then it is released, also if f panics.
//
// Hold returns the error of f, joined with ErrLost if the lease was lost before f returned. Otherwise f wasn't called,
// and the errors are ErrName, the store's, and the cause of ctx. A call of Hold inside of f for the same name never
// ends.
func (m *Manager) Hold(ctx context.Context, name string, f func(ctx context.Context, fence uint64) error) error {
	return m.do(ctx, name, true, f)
}

// TryHold is Hold, but doesn't wait: it returns ErrHeld if another holder has the lease, or if another call of this
// Manager holds it or waits for it.
func (m *Manager) TryHold(ctx context.Context, name string, f func(ctx context.Context, fence uint64) error) error {
	return m.do(ctx, name, false, f)
}

func (m *Manager) do(ctx context.Context, name string, wait bool, f func(context.Context, uint64) error) error {
	if err := CheckName(name); err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	release, err := m.turns.acquire(ctx, name, wait)
	if err != nil {
		return fmt.Errorf("lease %s: %w", name, err)
	}
	defer release()
	h, err := m.acquire(ctx, name, wait)
	if err != nil {
		return fmt.Errorf("lease %s: %w", name, err)
	}
	return m.run(ctx, h, f)
}

// run calls f with a lease, which it renews meanwhile and releases afterwards.
func (m *Manager) run(ctx context.Context, h *held, f func(context.Context, uint64) error) error {
	holding, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.start(cancel)
	m.add(ctx, h)
	defer func() { // also after a panic
		m.remove(h)
		h.stop()
		m.release(ctx, h)
	}()
	err := f(holdingContext{Context: holding, held: h}, h.fence)
	if lost := h.check(); lost != nil && !errors.Is(err, ErrLost) {
		return errors.Join(err, lost)
	}
	return err
}

// release ends a lease in the store, also if ctx has ended. If that fails the lease ends by itself.
func (m *Manager) release(ctx context.Context, h *held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := m.store.Release(ctx, h.request.Name, h.request.Token); err != nil {
		m.log.DebugContext(ctx, "cannot release a lease", "lease", h.request.Name, "error", err)
	}
}
