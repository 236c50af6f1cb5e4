package server

import (
	"context"

	"github.com/tidemark-dev/tidemark/access/limits"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

// limitedMatchmaking is the matchmaking as far as the limits of each client allow.
type limitedMatchmaking struct{ Matchmaking }

// Create creates a ticket and counts it, also if it exists.
func (m *limitedMatchmaking) Create(ctx context.Context, n service.NewTicket) (t matchmaking.Ticket, created bool,
	err error) {
	if err := limits.From(ctx).Ticket(ctx); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	return m.Matchmaking.Create(ctx, n)
}

// Await waits for an assignment, and counts as waiting.
func (m *limitedMatchmaking) Await(ctx context.Context, id string) (*matchmaking.Assignment, error) {
	done, err := limits.From(ctx).Wait(1)
	if err != nil {
		return nil, err
	}
	defer done()
	return m.Matchmaking.Await(ctx, id)
}

// AwaitEnd waits for the end of a ticket, and counts as waiting.
func (m *limitedMatchmaking) AwaitEnd(ctx context.Context, queue, id string) error {
	done, err := limits.From(ctx).Wait(1)
	if err != nil {
		return err
	}
	defer done()
	return m.Matchmaking.AwaitEnd(ctx, queue, id)
}
