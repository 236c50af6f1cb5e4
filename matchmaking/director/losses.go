package director

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/director/maker"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// losses looks for tickets that the storage has lost, and ends the waits of their players.
//
// A fail-over can lose tickets whose creation was answered; their players would wait forever. So a ticket that was in a
// director's pool is looked for if it no longer waits in the storage, and when the director has lost its lease. A ticket
// that was assigned, was cancelled or has expired can be read for the queue's AssignmentTTL longer. So one that cannot be
// read was lost, unless that time has passed since the lease was valid.
type losses struct {
	store interface {
		Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
	}
	players  *players
	queue    string
	keep     time.Duration    // the queue's AssignmentTTL
	leaseEnd func() time.Time // until when the lease was valid
	tasks    *maker.Tasks
	log      *slog.Logger
}

// check looks for tickets in the background.
func (l *losses) check(tickets []*matchmaking.Ticket) {
	if len(tickets) > 0 {
		l.tasks.Start(func(ctx context.Context) { l.checkAll(ctx, tickets) })
	}
}

func (l *losses) checkAll(ctx context.Context, tickets []*matchmaking.Ticket) {
	wait := pace.NewBackoff()
	for len(tickets) > 0 && l.provesLoss(time.Now()) {
		asked := time.Now()
		lost := tickets[0]
		_, err := l.store.Ticket(ctx, l.queue, lost.ID)
		switch {
		case errors.Is(err, matchmaking.ErrNoTicket):
			if l.provesLoss(asked) && l.players.release(ctx, lost.ID, lost.Epoch) {
				l.log.WarnContext(ctx, "a ticket was lost by the storage", "ticket", lost.ID)
			}
		case err != nil:
			if !pace.Sleep(ctx, wait.NextBackOff()) {
				return
			}
			continue
		}
		wait.Reset()
		tickets = tickets[1:]
	}
}

// provesLoss reports whether a ticket that could not be read at a time was lost: no record of its end has expired.
func (l *losses) provesLoss(at time.Time) bool { return at.Before(l.leaseEnd().Add(l.keep)) }
