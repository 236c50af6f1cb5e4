package server

import (
	"context"

	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/api/grpc"
	v1 "github.com/tidemark-dev/tidemark/internal/api/v1"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/simulation"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

// Matchmaking is the operations on tickets and queues that the APIs call. *service.Service implements it.
type Matchmaking interface {
	v1.Tickets
	grpc.Tickets
	v1.Queues
	grpc.Queues
	grpc.Backfills
	AssignTickets(ctx context.Context, queue string, groups []service.AssignmentGroup) ([]service.AssignmentFailure, error)
	ReleaseTickets(ctx context.Context, queue string, ids []string) error
	ReleaseAllTickets(ctx context.Context, queue string) error
	delivery.Tickets
	Drain() // ends what waits, now and later
	Resume()
}

// tickets are the operations on tickets for clients, over any transport. The steps of each method are in the order in
// which they happen: the limits of the client in the context, and the service, which counts. Queues and matches have no
// limits: their handlers call the service directly.
type tickets struct {
	service  Matchmaking
	recorder *simulation.Recorder // for simulations
}

// Create creates a ticket, and counts it for the client also if it exists.
func (t *tickets) Create(ctx context.Context, n service.NewTicket) (made matchmaking.Ticket, created bool, err error) {
	if err := limits.From(ctx).Ticket(ctx); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	n.Spec.Trace = tracing.Of(ctx)
	if made, created, err = t.service.Create(ctx, n); created {
		t.recorder.Add(&made)
	}
	return made, created, err
}

// Token returns the credential for the player of a ticket that the client has created.
func (t *tickets) Token(ctx context.Context, created *matchmaking.Ticket) string {
	return t.service.Token(ctx, created)
}

// Ticket reads a ticket.
func (t *tickets) Ticket(ctx context.Context, id string) (matchmaking.Ticket, error) {
	return t.service.Ticket(ctx, id)
}

// Attend marks a ticket's player as present until stop is called.
func (t *tickets) Attend(ctx context.Context, id string) (stop func()) {
	return t.service.Attend(ctx, id)
}

// Cancel cancels a ticket that waits.
func (t *tickets) Cancel(ctx context.Context, id string) error { return t.service.Cancel(ctx, id) }

// Deindex cancels a ticket that waits, and leaves it readable for clients of Open Match.
func (t *tickets) Deindex(ctx context.Context, id string) error { return t.service.Deindex(ctx, id) }

// Delete removes a ticket, whether it waits or is assigned.
func (t *tickets) Delete(ctx context.Context, id string) error { return t.service.Delete(ctx, id) }

// Await waits for the assignment of a ticket. It is one of the client's waits.
func (t *tickets) Await(ctx context.Context, id string) (*matchmaking.Assignment, error) {
	done, err := limits.From(ctx).Wait(1)
	if err != nil {
		return nil, err
	}
	defer done()
	return t.service.Await(ctx, id)
}

// AwaitEnd waits for the end of an assigned ticket. It is one of the client's waits.
func (t *tickets) AwaitEnd(ctx context.Context, queue, id string) error {
	done, err := limits.From(ctx).Wait(1)
	if err != nil {
		return err
	}
	defer done()
	return t.service.AwaitEnd(ctx, queue, id)
}

// newPlayers returns the players of tickets, for whose channels a guard decides; nil: the service is open.
func newPlayers(t delivery.Tickets, guard *access.Guard) *delivery.Players {
	if guard == nil {
		return delivery.NewPlayers(t, nil)
	}
	return delivery.NewPlayers(t, func(ctx context.Context, id string) error {
		return guard.Check(ctx, access.From(ctx), access.Subscribe, access.Resource{
			Channel: matchmaking.ChannelOf(id), Subscriber: matchmaking.Subscriber,
		})
	})
}
