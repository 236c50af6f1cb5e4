package lease

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// add starts the renewals of a lease.
func (m *Manager) add(ctx context.Context, h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held[h] = struct{}{}
	if !m.renewing {
		m.renewing = true
		go m.renewHeld(context.WithoutCancel(ctx))
	} else if h.due.Before(m.wake) {
		pace.Signal(m.changed)
	}
}

// remove ends the renewals of a lease.
func (m *Manager) remove(h *held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, h)
	if len(m.held) == 0 {
		pace.Signal(m.changed)
	}
}

// renewHeld renews leases, all that are due soon at once, until none is held.
func (m *Manager) renewHeld(ctx context.Context) {
	failing := false
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wait, ok := m.nextRound()
		if !ok {
			return
		}
		timer.Reset(wait)
		select {
		case <-m.changed:
		case <-timer.C:
			err := m.renew(ctx, m.dueBy(time.Now().Add(m.every*2/3)))
			if failing != (err != nil) {
				failing = err != nil
				m.report(ctx, err)
			}
		}
	}
}

// report logs that renewals have begun to fail, or to succeed.
func (m *Manager) report(ctx context.Context, err error) {
	if err != nil {
		m.log.WarnContext(ctx, "cannot renew leases", "error", err)
	} else {
		m.log.InfoContext(ctx, "leases are renewed again")
	}
}

// nextRound returns how long to wait until leases are due, or a little less, so that processes differ. It reports
// whether any lease is held; if none is, renewHeld must return.
func (m *Manager) nextRound() (wait time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.held {
		if !ok || h.due.Before(m.wake) {
			m.wake, ok = h.due, true
		}
	}
	if !ok {
		m.renewing = false
		return 0, false
	}
	wait = max(time.Until(m.wake), 0)
	return wait - mathrand.N(wait/4+1), true //nolint:gosec // it spreads load and isn't for security
}

// dueBy returns the leases that are due by a time. It removes those that are lost.
func (m *Manager) dueBy(limit time.Time) (due []*held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for h := range m.held {
		if h.check() != nil {
			delete(m.held, h)
		} else if !h.due.After(limit) {
			due = append(due, h)
		}
	}
	return due
}

// renew renews leases in one call. After an error, some may be renewed and others not; they are due again soon.
//
// The call may take half of the time until the first deadline. So if a part of the store doesn't respond, its leases
// have time for a repeat, and leases in other parts aren't lost.
func (m *Manager) renew(ctx context.Context, leases []*held) (failed error) {
	if len(leases) == 0 {
		return nil
	}
	sent := time.Now()
	remaining := m.usable
	requests := make([]Request, len(leases))
	for i, h := range leases {
		requests[i] = h.request
		remaining = min(remaining, h.end().Sub(sent))
	}
	ctx, cancel := context.WithTimeout(ctx, remaining/2)
	defer cancel()
	errs := m.store.Renew(ctx, requests)

	m.mu.Lock()
	defer m.mu.Unlock()
	for i, h := range leases {
		switch err := errs[i]; {
		case err == nil:
			h.extend(sent)
			h.due = sent.Add(m.every)
		case errors.Is(err, ErrLost):
			h.lose(err)
			delete(m.held, h)
		default:
			failed = err
			h.fail(err)
			h.due = time.Now().Add(m.every / 8)
		}
	}
	return failed
}
