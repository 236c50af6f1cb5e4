package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Await waits for the assignment of a ticket, whose player counts as present meanwhile, as with Attend. It returns at
// once if the ticket is assigned. A wait costs the server some hundred bytes, and the storage at most one read at its
// beginning. It needs Run. Errors: ErrNoTicket if the ticket does not exist, or when it is cancelled or has expired;
// fault.ErrUnavailable after Drain; that of ctx; and the store's.
func (s *Service) Await(ctx context.Context, id string) (*matchmaking.Assignment, error) {
	queue, err := s.queueOf(ctx, id)
	if err != nil {
		return nil, err
	}
	_, err = s.registry.lookup(ctx, queue)
	switch {
	case errors.Is(err, matchmaking.ErrNoQueue): // the queue's name in an ID can be invented
		return s.assignment(ctx, queue, id)
	case err != nil:
		return nil, fmt.Errorf("await the assignment of ticket %s: %w", id, err)
	}
	defer s.Attend(ctx, id)()
	a, err := s.watches.Await(ctx, queue, id)
	if err != nil {
		return nil, fmt.Errorf("await the assignment of ticket %s: %w", id, err)
	}
	return a, nil
}

// assignment returns the assignment of a ticket in a deleted queue.
func (s *Service) assignment(ctx context.Context, queue, id string) (*matchmaking.Assignment, error) {
	t, err := s.options.Store.Ticket(ctx, queue, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read ticket %s: %w", id, err)
	case t.Assignment == nil:
		return nil, matchmaking.ErrNoTicket
	}
	return t.Assignment, nil
}

// Waits returns the number of calls of Await in progress, and the number of queues with a subscription for them.
func (s *Service) Waits() (waits, feeds int) { return s.watches.Count() }

// secondRead is the delay after which AwaitEnd reads the ticket once, in case it was removed before notifications were
// received.
const secondRead = time.Second

// AwaitEnd returns nil when an assigned ticket of a queue can't be read any more: it was deleted, or its assignment has
// expired. Errors: fault.ErrUnavailable after Drain, and that of ctx.
func (s *Service) AwaitEnd(ctx context.Context, queue, id string) error {
	keep := s.registry.assignmentTTL(queue)
	ends := time.Now().Add(keep)
	timer := time.NewTimer(min(secondRead, keep))
	defer timer.Stop()
	for time.Now().Before(ends) {
		if err := s.watches.AwaitRemoved(ctx, queue, id, timer.C); err != nil {
			return err
		}
		state, err := s.stateOf(ctx, queue, id) // a replica may still have the ticket
		if errors.Is(err, matchmaking.ErrNoTicket) || err == nil && state.Content == "" && !state.Unconfirmed {
			return nil
		}
		timer.Reset(time.Until(ends))
	}
	return nil
}

// Drain ends all calls of Await and AwaitEnd, now and later.
func (s *Service) Drain() { s.watches.Drain() }

// Resume lets calls wait again after Drain.
func (s *Service) Resume() { s.watches.Resume() }
