package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Ticket reads a ticket. One that has ended can be read for the queue's AssignmentTTL longer. Errors: ErrNoTicket and the
// store's.
func (s *Service) Ticket(ctx context.Context, id string) (matchmaking.Ticket, error) {
	queue, err := s.queueOf(ctx, id)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	t, err := s.o.Store.Ticket(ctx, queue, id)
	if err != nil {
		return matchmaking.Ticket{}, fmt.Errorf("read ticket %s: %w", id, err)
	}
	return t, nil
}

// Cancel removes a ticket from its queue, and ends the fetches that wait on its channel. It succeeds for a ticket that is
// cancelled, has expired, or never existed. Errors: ErrTicketMatched if it is assigned, and nothing has changed; and those
// of the store and the channels, after which a repetition completes it.
func (s *Service) Cancel(ctx context.Context, id string) error {
	queue, err := s.queueOf(ctx, id)
	switch {
	case errors.Is(err, matchmaking.ErrNoTicket):
		return nil
	case err != nil:
		return err
	}
	keep := time.Duration(matchmaking.DefaultAssignmentTTL)
	q := s.registry.known()[queue]
	if q != nil {
		keep = q.AssignmentTTL.Std()
	}
	if err := s.o.Store.Cancel(ctx, matchmaking.CancelRequest{Queue: queue, ID: id, Keep: keep}); err != nil {
		return fmt.Errorf("cancel ticket %s: %w", id, err)
	}
	if q != nil { // the metrics of a deleted queue are gone
		s.o.Metrics.Cancelled(queue)
	}
	if err := s.o.Channels.Unsubscribe(ctx, id); err != nil {
		return fmt.Errorf("cancel ticket %s: %w", id, err)
	}
	return nil
}

// queueOf returns the queue of a ticket. An ID that the service made names it. Errors: ErrNoTicket and the store's.
func (s *Service) queueOf(ctx context.Context, id string) (string, error) {
	if queue, ok := matchmaking.QueueOf(id); ok {
		return queue, nil
	}
	if matchmaking.CheckTicketID(id) != nil {
		return "", matchmaking.ErrNoTicket
	}
	owner, err := s.o.Lookup.Owner(ctx, id)
	if err != nil {
		return "", fmt.Errorf("find the queue of ticket %s: %w", id, err)
	}
	return owner.Queue, nil
}
