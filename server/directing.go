package server

import (
	"context"

	"github.com/tidemark-dev/tidemark/internal/access/limits"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

// Fetcher fetches matches for users who direct queues. *backend.Synchronizer implements it.
type Fetcher interface {
	Fetch(ctx context.Context, r backend.FetchRequest, each func(backend.Match) error) error
}

// directing are the operations of users who direct queues, and of their game servers, over any transport: the limits of
// the client in the context, and the service. Those without a limit of their own are the service's.
type directing struct {
	Matchmaking
	fetcher Fetcher
}

// Fetch fetches matches. It is one of the client's waits.
func (d *directing) Fetch(ctx context.Context, r backend.FetchRequest, each func(backend.Match) error) error {
	done, err := limits.From(ctx).Wait(1)
	if err != nil {
		return err
	}
	defer done()
	return d.fetcher.Fetch(ctx, r, each)
}

// CreateBackfill creates a backfill, which counts as a ticket of the client.
func (d *directing) CreateBackfill(ctx context.Context, n service.NewBackfill) (matchmaking.Backfill, error) {
	if err := limits.From(ctx).Ticket(ctx); err != nil {
		return matchmaking.Backfill{}, err
	}
	return d.Matchmaking.CreateBackfill(ctx, n)
}
