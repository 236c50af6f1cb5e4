package races_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// TestServersThatDieBeforeTheyKnow kills servers when Redis has created or assigned a batch of tickets and they haven't
// received the reply. Players who repeat their request on another server have one ticket, and assignments reach their
// players.
func TestServersThatDieBeforeTheyKnow(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		a := newArena(t, url, definition(t, "duel", `{"pendingTimeout":"500ms"}`))
		var stuck atomic.Int64
		dies := func(in string) hook {
			return func(s *server) {
				s.queues.answering = func(ctx context.Context, call string) error {
					if call != in {
						return nil
					}
					stuck.Add(1)
					select {
					case <-s.life.Done():
					case <-ctx.Done():
					}
					return errBroken
				}
			}
		}
		stop := a.arrive(3*time.Millisecond, steady("duel", 6))
		for _, call := range []string{"assign", "create", "assign", "create"} {
			victim, before := a.start(t, "dies in "+call, dies(call)), stuck.Load()
			a.eventually(t, "batches without answers", func() bool { return stuck.Load() > before+1 })
			a.kill(victim)
		}
		stop()
		a.start(t, "survivor")
		a.crowd(40, 3*time.Millisecond, steady("duel", 6))
		require.NotZero(t, a.verify(t)[matchmaking.MatchFound])
		unknown := a.ledger.count(func(e *entry) bool { return e.tickets != nil && !e.decided })
		require.NotZero(t, unknown, "no outcome was unknown")
	})
}

// TestOneTicketInOneBatch creates tickets twice and cancels them, all in the same batches of one server.
func TestOneTicketInOneBatch(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		a := newArena(t, url, definition(t, "duel", `{}`))
		beside := a.start(t, "a")
		a.crowd(200, 0, func(r *rand.Rand) plan { return plan{queue: "duel", beside: beside, hasty: r.IntN(3) > 0} })
		counts := a.verify(t)
		require.NotZero(t, counts[matchmaking.MatchFound])
		require.NotZero(t, counts[matchmaking.Cancelled])
	})
}
