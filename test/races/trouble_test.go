package races_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
)

// expireLeases repeatedly ends the lease of a queue's director, so that the next director starts while matches of the
// last one are in progress. On a busy machine the lease may have expired, or another server may have acquired it and
// not have the answer yet: then there is no lease to end.
func (a *arena) expireLeases(queue string) (stop func()) {
	return during(func(ctx context.Context) {
		r := a.random(-3)
		for wait(ctx, between(r, 30*time.Millisecond, 200*time.Millisecond)) {
			if token := a.ledger.lease(queue); token != "" {
				err := a.observer.queues.Leases().Release(ctx, queue, token)
				if !errors.Is(err, lease.ErrLost) {
					a.reportStorage(ctx, err)
				}
			}
		}
	})
}

// rival matches a queue's oldest tickets without its lease, often too slowly, and without relaying the assignments.
func (a *arena) rival(d matchmaking.Definition, number int) (stop func()) {
	const hold = 200 * time.Millisecond
	return during(func(ctx context.Context) {
		r, size := a.random(-100-number), d.Match.Teams*d.Match.TeamSize
		for round := 0; wait(ctx, between(r, 0, 100*time.Millisecond)); round++ {
			token := fmt.Sprintf("rival%d-%d", number, round)
			claimed, err := a.observer.queues.Claim(ctx, matchmaking.ClaimRequest{
				Queue: d.Name, Token: token, Hold: hold, Limit: 2 * size,
			})
			if err != nil {
				a.reportStorage(ctx, err)
				continue
			}
			wait(ctx, between(r, 0, hold*5/4))
			request := matchmaking.AssignRequest{Queue: d.Name, Token: token, Keep: time.Minute}
			for ids := claimed.IDs; len(ids) >= size; ids = ids[size:] {
				request.Matches = append(request.Matches, rivalMatch(d.Name, fmt.Sprintf("%s-%d", token, len(ids)),
					ids[:size]))
			}
			for _, o := range a.observer.queues.Assign(context.WithoutCancel(ctx), request) {
				a.reportStorage(ctx, o.Err)
			}
			a.reportStorage(ctx, a.observer.queues.Release(context.WithoutCancel(ctx), d.Name, token, claimed.IDs))
		}
	})
}

func rivalMatch(queue, id string, tickets []string) matchmaking.AssignMatch {
	m := matchmaking.AssignMatch{ID: id}
	for team, ticket := range tickets {
		content, err := json.Marshal(matchmaking.Assignment{
			TicketID: ticket, MatchID: id, Queue: queue, Connection: placeOf(id), Team: team,
		})
		if err != nil {
			panic(err) // cannot happen
		}
		m.Assignments = append(m.Assignments, matchmaking.AssignTicket{ID: ticket, Content: content})
	}
	return m
}

// reportStorage reports a failed operation of the test itself.
func (a *arena) reportStorage(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		a.report(err)
	}
}
