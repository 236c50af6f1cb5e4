package service_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/lease"
)

// tampered is a store with hooks, which are set before it is used. nil: no hook.
type tampered struct {
	matchmaking.Store
	dead atomic.Bool // its server can no longer reach the storage

	create func(context.Context, matchmaking.CreateRequest) error // called after the ticket was created
	undo   func() error                                           // called first
	assign func(context.Context, matchmaking.AssignRequest) []matchmaking.AssignOutcome
}

func (s *tampered) requireNoTicket() error {
	if s.dead.Load() {
		return fault.ErrUnavailable
	}
	return nil
}

func (s *tampered) Create(ctx context.Context, r matchmaking.CreateRequest) (matchmaking.Ticket, bool, error) {
	made, created, err := s.Store.Create(ctx, r)
	if s.create != nil && err == nil {
		err = s.create(ctx, r)
	}
	return made, created, err
}

func (s *tampered) Undo(ctx context.Context, queue, id, attempt string) (bool, error) {
	if s.undo != nil {
		if err := s.undo(); err != nil {
			return false, err
		}
	}
	return s.Store.Undo(ctx, queue, id, attempt)
}

func (s *tampered) Claim(ctx context.Context, r matchmaking.ClaimRequest) (matchmaking.Claimed, error) {
	if err := s.requireNoTicket(); err != nil {
		return matchmaking.Claimed{}, err
	}
	return s.Store.Claim(ctx, r)
}

func (s *tampered) Assign(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
	if err := s.requireNoTicket(); err != nil {
		outcomes := make([]matchmaking.AssignOutcome, len(r.Matches))
		for i := range outcomes {
			outcomes[i].Err = err
		}
		return outcomes
	}
	if s.assign != nil {
		return s.assign(ctx, r)
	}
	return s.Store.Assign(ctx, r)
}

func (s *tampered) Release(ctx context.Context, queue, token string, ids []string) error {
	if err := s.requireNoTicket(); err != nil {
		return err
	}
	return s.Store.Release(ctx, queue, token, ids)
}

func (s *tampered) TakeOver(ctx context.Context, queue string, fence uint64, ids []string) ([]string, error) {
	if err := s.requireNoTicket(); err != nil {
		return nil, err
	}
	return s.Store.TakeOver(ctx, queue, fence, ids)
}

func (s *tampered) Sweep(ctx context.Context, queue string, notified []string, limit int) (matchmaking.Swept, error) {
	if err := s.requireNoTicket(); err != nil {
		return matchmaking.Swept{}, err
	}
	return s.Store.Sweep(ctx, queue, notified, limit)
}

func (s *tampered) Leases() lease.Store { return &tamperedLeases{Store: s.Store.Leases(), of: s} }

// tamperedLeases are the leases of a tampered store.
type tamperedLeases struct {
	lease.Store
	of *tampered
}

func (l *tamperedLeases) Acquire(ctx context.Context, r lease.Request) (uint64, error) {
	if err := l.of.requireNoTicket(); err != nil {
		return 0, err
	}
	return l.Store.Acquire(ctx, r)
}

func (l *tamperedLeases) Renew(ctx context.Context, rs []lease.Request) []error {
	if err := l.of.requireNoTicket(); err != nil {
		return slices.Repeat([]error{err}, len(rs))
	}
	return l.Store.Renew(ctx, rs)
}

func (l *tamperedLeases) Release(ctx context.Context, name, token string) error {
	if err := l.of.requireNoTicket(); err != nil {
		return err
	}
	return l.Store.Release(ctx, name, token)
}

// brokenChannels are channels whose Publish can fail.
type brokenChannels struct {
	service.Channels
	fail func(name string) error
}

func (c *brokenChannels) Publish(ctx context.Context, entries []matchmaking.OutboxEntry) []error {
	errs := make([]error, len(entries))
	for i, e := range entries {
		if c.fail != nil {
			errs[i] = c.fail(matchmaking.ChannelOf(e.TicketID))
		}
		if errs[i] == nil {
			errs[i] = c.Channels.Publish(ctx, entries[i:i+1])[0]
		}
	}
	return errs
}

// place is an assigner that records its calls.
type place struct {
	allocate func(ctx context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error)

	mu        sync.Mutex
	allocated map[string]int
	released  map[string]matchmaking.Allocation
}

func (p *place) Allocate(ctx context.Context, m matchmaking.Proposal) (matchmaking.Allocation, error) {
	p.mu.Lock()
	if p.allocated == nil {
		p.allocated = map[string]int{}
	}
	p.allocated[m.ID]++
	p.mu.Unlock()
	if p.allocate != nil {
		return p.allocate(ctx, m)
	}
	return matchmaking.Allocation{
		Connection: "at " + m.ID, Token: "token " + m.ID,
		Extensions: map[string]json.RawMessage{"a": []byte(`{"b": 1}`)},
	}, nil
}

func (p *place) Release(_ context.Context, matchID string, a matchmaking.Allocation) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released == nil {
		p.released = map[string]matchmaking.Allocation{}
	}
	p.released[matchID] = a
	return nil
}

// tried returns the number of matches for which the assigner was called, and the released allocations.
func (p *place) tried() (allocated int, released map[string]matchmaking.Allocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	released = map[string]matchmaking.Allocation{}
	for id, a := range p.released {
		released[id] = a
	}
	return len(p.allocated), released
}

// buildWith builds queues with the test's assigner.
func buildWith(a matchmaking.Assigner) matchmaking.Build {
	return func(d matchmaking.Definition) (matchmaking.Parts, error) {
		parts, err := build(d)
		parts.Assigner = a
		return parts, err
	}
}

// requireMatched waits for the assignments of two tickets of one match.
func (w *world) requireMatched(t *testing.T, a, b string) matchmaking.Assignment {
	t.Helper()
	toA, toB := w.assignment(t, a), w.assignment(t, b)
	require.Equal(t, toA.MatchID, toB.MatchID)
	return toA
}

// requireNoMore checks that a ticket's channel has one message after all deliveries.
func (w *world) requireNoMore(t *testing.T, queue string, tickets ...string) {
	t.Helper()
	w.emptied(t, queue)
	for _, id := range tickets {
		require.Len(t, w.fetch(t, id, 0).Messages, 1)
	}
}
