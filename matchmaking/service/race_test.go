package service_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

// TestNoTicketIsInTwoMatches has several servers, whose leases are taken from them again and again, and players who
// cancel while their matches are made.
func TestNoTicketIsInTwoMatches(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		const players = 300
		a := &place{}
		o := w.options(t, define(t, "duel", `{"pendingTimeout":"400ms"}`))
		o.LeaseTTL, o.Build = 300*time.Millisecond, buildWith(a, nil)
		var claims atomic.Int64
		var servers []*service.Service
		for range 3 {
			_, queues := w.connect(t)
			o.Store = &tampered{Store: queues, claim: func(ctx context.Context, r matchmaking.ClaimRequest) {
				if claims.Add(1)%7 == 0 {
					_ = w.queues.Resign(ctx, r.Queue, r.Lease)
				}
			}}
			s := newService(t, o)
			background(t, s.Run)
			servers = append(servers, s)
		}
		tickets, cancelled := make([]string, players), make([]bool, players)
		var running sync.WaitGroup
		for i := range players {
			running.Go(func() {
				s := servers[i%len(servers)]
				made, _, err := s.Create(t.Context(), service.NewTicket{Queue: "duel"})
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				tickets[i] = made.ID
				if i%3 == 0 {
					err := s.Cancel(t.Context(), made.ID)
					cancelled[i] = err == nil
					if err != nil && !errors.Is(err, matchmaking.ErrTicketMatched) {
						t.Errorf("cancel: %v", err)
					}
				}
			})
		}
		running.Wait()
		left := 0
		for i := range players {
			if !cancelled[i] {
				left++
			}
		}
		if left%2 == 1 {
			tickets, cancelled = append(tickets, create(t, servers[0], service.NewTicket{Queue: "duel"}).ID), append(cancelled, false)
		}
		w.emptied(t, "duel")

		matches := map[string][]int{}
		for i, id := range tickets {
			read, err := servers[0].Ticket(t.Context(), id)
			require.NoError(t, err)
			if cancelled[i] {
				require.Equal(t, matchmaking.Cancelled, read.Status)
				continue
			}
			require.Equal(t, matchmaking.MatchFound, read.Status)
			got := w.assignment(t, id)
			require.Equal(t, *read.Assignment, got)
			require.Len(t, w.fetch(t, id, 0).Messages, 1)
			matches[got.MatchID] = append(matches[got.MatchID], got.Team)
		}
		_, released := a.tried()
		for match, teams := range matches {
			require.ElementsMatch(t, []int{0, 1}, teams, "match %s", match)
			require.NotContains(t, released, match)
		}
	})
}
