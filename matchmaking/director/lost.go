package director

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// A fail-over of the storage can lose tickets whose creation was answered. Their players would wait forever. So those
// that were in a director's memory are looked for when they don't wait in the storage any more, and when the director
// has lost its lease. A ticket that was assigned, was cancelled or has expired can be read for the queue's AssignmentTTL
// longer. Until that time has passed since the lease was valid, one that can't be read was lost.

// findLost looks for tickets of the memory in the storage, and tells the players of those that are not there. It runs
// as a background task, until tickets of players who have their assignments can't be told from lost ones any more.
func (t *term) findLost(ids []string) {
	if len(ids) == 0 {
		return
	}
	t.start(func(ctx context.Context) {
		wait := pace.NewBackoff()
		for len(ids) > 0 && time.Now().Before(t.lease.end().Add(t.Definition.AssignmentTTL.Std())) {
			asked := time.Now()
			_, err := t.Store.Ticket(ctx, t.Definition.Name, ids[0])
			switch {
			case errors.Is(err, matchmaking.ErrNoTicket):
				if asked.Before(t.lease.end().Add(t.Definition.AssignmentTTL.Std())) && t.unsubscribe(ctx, ids[0]) {
					t.log.WarnContext(ctx, "a ticket was lost by the storage", "ticket", ids[0])
				}
			case err != nil:
				if !pace.Sleep(ctx, wait.NextBackOff()) {
					return
				}
				continue
			}
			wait.Reset()
			ids = ids[1:]
		}
	})
}

// isSure reports whether it is certain that the ticket was not assigned.
func (h *held) isSure() bool { return h.state != claimed && !h.doubtful }

// remembered lists such tickets.
func (t *term) remembered() []string {
	var ids []string
	for id, h := range t.tickets {
		if h.isSure() {
			ids = append(ids, id)
		}
	}
	return ids
}
