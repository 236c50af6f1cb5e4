package director

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// losses looks for tickets that the storage has lost, and ends the waits of their players.
//
// A fail-over can lose tickets whose creation was answered; their players would wait forever. So a ticket of a
// director's pool is read if it no longer waits in the storage, and when the director has lost its lease. A ticket that
// was assigned, was cancelled or has expired can be read for the queue's AssignmentTTL longer. So one that can't be
// read was lost, unless that time has passed since the lease was valid. A replica may have a ticket that the primary
// has lost, so the primary is read first, for whether the ticket waits or is assigned.
type losses struct {
	store interface {
		Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
		States(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error)
	}
	players  *players
	queue    string
	keep     time.Duration    // the queue's AssignmentTTL
	leaseEnd func() time.Time // the end of the lease
	tasks    *tasks
	log      *slog.Logger
}

// check reads tickets in the background, and ends the waits of those that were lost.
func (l *losses) check(tickets []*matchmaking.Ticket) {
	if len(tickets) > 0 {
		l.tasks.Start(func(ctx context.Context) { l.checkAll(ctx, tickets) })
	}
}

// lossesBatch is how many tickets are read in one call.
const lossesBatch = 500

func (l *losses) checkAll(ctx context.Context, tickets []*matchmaking.Ticket) {
	ids := make([]string, 0, lossesBatch)
	for batch := range slices.Chunk(tickets, lossesBatch) {
		ids = ids[:0]
		for _, t := range batch {
			ids = append(ids, t.ID)
		}
		var states []matchmaking.TicketState
		_, ok := l.retry(ctx, func() (err error) {
			states, err = l.store.States(ctx, l.queue, ids)
			return err
		})
		for i, t := range batch {
			if ok && !states[i].Created.Equal(t.CreateTime) {
				l.checkEnded(ctx, t)
			}
		}
	}
}

// checkEnded ends the wait of the player of a ticket that neither waits nor is assigned, unless the ticket can still be
// read.
func (l *losses) checkEnded(ctx context.Context, t *matchmaking.Ticket) {
	lost := false
	readAt, ok := l.retry(ctx, func() error {
		found, err := l.store.Ticket(ctx, l.queue, t.ID)
		if errors.Is(err, matchmaking.ErrNoTicket) {
			lost, err = true, nil
		} else if found.CreateTime.Equal(t.CreateTime) {
			// a replica that lags was read
			lost = found.Status != matchmaking.Cancelled && found.Status != matchmaking.Expired
		}
		return err
	})
	if ok && lost && l.provesLoss(readAt) && l.players.endWait(ctx, t.ID, t.Epoch) {
		l.log.WarnContext(ctx, "a ticket was lost by the storage", "ticket", t.ID)
	}
}

// retry calls read until it succeeds, as long as a read can prove a loss. It returns the time of the last call, and
// reports whether that succeeded.
func (l *losses) retry(ctx context.Context, read func() error) (readAt time.Time, ok bool) {
	wait := pace.NewBackoff()
	for readAt = time.Now(); l.provesLoss(readAt); readAt = time.Now() {
		if read() == nil {
			return readAt, true
		}
		if !pace.Sleep(ctx, wait.NextBackOff()) {
			break
		}
	}
	return readAt, false
}

// provesLoss reports whether a ticket that couldn't be read at a time was lost: a record of its end would not have
// expired yet.
func (l *losses) provesLoss(at time.Time) bool { return at.Before(l.leaseEnd().Add(l.keep)) }
