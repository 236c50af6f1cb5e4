package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Ticket reads a ticket. A ticket that has ended remains readable for the queue's AssignmentTTL. Errors: ErrNoTicket
// and the store's.
func (s *Service) Ticket(ctx context.Context, id string) (matchmaking.Ticket, error) {
	queue, err := s.queueOf(ctx, id)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	t, err := s.options.Store.Ticket(ctx, queue, id)
	if err != nil {
		return matchmaking.Ticket{}, fmt.Errorf("read ticket %s: %w", id, err)
	}
	return t, nil
}

// Cancel removes a ticket from its queue, and ends the waiting fetches of its channel. It succeeds for a ticket that is
// cancelled, has expired, or never existed. Errors: ErrTicketMatched if it is assigned, and nothing has changed; and
// those of the store and the channels, after which a repetition completes it.
func (s *Service) Cancel(ctx context.Context, id string) error {
	return s.cancel(ctx, matchmaking.CancelRequest{ID: id})
}

// Deindex is Cancel, but clients of Open Match can read the ticket for a while. Errors: those of Cancel.
func (s *Service) Deindex(ctx context.Context, id string) error {
	return s.cancel(ctx, matchmaking.CancelRequest{ID: id, Deindex: true})
}

// Delete is Cancel for a waiting ticket. An assigned ticket can't be read any more; the message with its assignment
// stays on its channel. Errors: those of the store and the channels, after which a repetition completes it.
func (s *Service) Delete(ctx context.Context, id string) error {
	err := s.Cancel(ctx, id)
	if !errors.Is(err, matchmaking.ErrTicketMatched) {
		return err
	}
	queue, err := s.queueOf(ctx, id)
	if err == nil {
		err = s.options.Store.Cancel(ctx, matchmaking.CancelRequest{Queue: queue, ID: id, RemoveAssigned: true})
	}
	if err != nil && !errors.Is(err, matchmaking.ErrNoTicket) {
		return fmt.Errorf("delete ticket %s: %w", id, err)
	}
	return nil
}

func (s *Service) cancel(ctx context.Context, r matchmaking.CancelRequest) error {
	defer s.ForgetOwner(r.ID)
	owner, err := s.ownerOf(ctx, r.ID)
	switch {
	case errors.Is(err, matchmaking.ErrNoTicket):
		return nil
	case err != nil:
		return err
	}
	r.Queue = owner.Queue
	if !r.Deindex {
		r.Keep = s.registry.assignmentTTL(owner.Queue)
	}
	err = s.options.Store.Cancel(ctx, r)
	switch {
	case errors.Is(err, matchmaking.ErrNoTicket): // it may be in creation: its player's subscription remains
		return nil
	case err != nil:
		return fmt.Errorf("cancel ticket %s: %w", r.ID, err)
	}
	if s.registry.all()[owner.Queue] != nil { // a deleted queue has no metrics
		s.options.Metrics.Cancelled(owner.Queue)
	}
	if err := s.options.Channels.Unsubscribe(ctx, r.ID, owner.Epoch); err != nil {
		return fmt.Errorf("cancel ticket %s: %w", r.ID, err)
	}
	return nil
}

// Redeliver publishes the assignment of a ticket on its channel again, which does nothing if it is there: a fail-over
// may have lost it. published reports whether the ticket is assigned. Errors: ErrNoTicket if the ticket has ended or
// doesn't exist, and those of the store and the channels.
func (s *Service) Redeliver(ctx context.Context, id string) (published bool, err error) {
	owner, err := s.ownerOf(ctx, id)
	if err != nil {
		return false, err
	}
	state, err := s.stateOf(ctx, owner.Queue, id)
	if err != nil || state.Content == "" {
		return false, err
	}
	var a matchmaking.Assignment
	if err := json.Unmarshal([]byte(state.Content), &a); err != nil {
		return false, fmt.Errorf("decode the assignment of ticket %s: %w", id, err)
	}
	entry := matchmaking.OutboxEntry{TicketID: id, MatchID: a.MatchID, Epoch: owner.Epoch, Content: []byte(state.Content)}
	if err := s.options.Channels.Publish(ctx, []matchmaking.OutboxEntry{entry})[0]; err != nil {
		return false, fmt.Errorf("publish the assignment of ticket %s: %w", id, err)
	}
	return true, nil
}

// stateOf returns the state of a waiting or assigned ticket. Errors: ErrNoTicket if it has ended, and the store's.
func (s *Service) stateOf(ctx context.Context, queue, id string) (matchmaking.TicketState, error) {
	states, err := s.options.Store.States(ctx, queue, []string{id})
	switch {
	case err != nil:
		return matchmaking.TicketState{}, fmt.Errorf("read the state of ticket %s: %w", id, err)
	case len(states) == 0 || states[0].Created.IsZero():
		return matchmaking.TicketState{}, matchmaking.ErrNoTicket
	}
	return states[0], nil
}

// Owner returns the owner of a ticket, see [matchmaking.Ticket], and the ticket's creation time, which distinguishes
// tickets with the same ID. For a caller-chosen ID, the result can be a second old. Most calls need no read. Errors:
// ErrNoTicket and the store's.
func (s *Service) Owner(ctx context.Context, id string) (owner string, created time.Time, err error) {
	return s.owners.Owner(ctx, id)
}

// ForgetOwner makes the next call of Owner read the owner of a ticket, unless its ID is never reused.
func (s *Service) ForgetOwner(id string) { s.owners.Forget(id) }

// queueOf returns the queue of a ticket. Errors: ErrNoTicket and the store's.
func (s *Service) queueOf(ctx context.Context, id string) (string, error) {
	owner, err := s.ownerOf(ctx, id)
	return owner.Queue, err
}

// ownerOf returns the queue of a ticket, and the epoch of its channel's life, which is zero for a service-generated ID,
// since that contains the queue's name and is never reused. Errors: ErrNoTicket and the store's.
func (s *Service) ownerOf(ctx context.Context, id string) (matchmaking.Owner, error) {
	if queue, ok := matchmaking.QueueOf(id); ok {
		return matchmaking.Owner{Queue: queue}, nil
	}
	if matchmaking.CheckTicketID(id) != nil {
		return matchmaking.Owner{}, matchmaking.ErrNoTicket
	}
	owner, err := s.options.Lookup.Owner(ctx, id)
	if err != nil {
		return matchmaking.Owner{}, fmt.Errorf("find the queue of ticket %s: %w", id, err)
	}
	return owner, nil
}
