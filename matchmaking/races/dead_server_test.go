package races_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// steady are players of whom one in so many cancels.
func steady(queue string, cancel int) func(*rand.Rand) plan {
	return func(r *rand.Rand) plan {
		p := plan{queue: queue, looks: r.IntN(3)}
		if r.IntN(cancel) == 0 {
			p.leaves = between(r, time.Millisecond, 100*time.Millisecond)
		}
		return p
	}
}

// hanging is allocations that never end by themselves.
type hanging struct {
	mu  sync.Mutex
	now map[*server][][]string // the tickets of those that hang
}

func (h *hanging) hang(ctx context.Context, s *server, p matchmaking.Proposal) error {
	var ids []string
	for _, ticket := range p.Tickets() {
		ids = append(ids, ticket.ID)
	}
	h.mu.Lock()
	h.now[s] = append(h.now[s], ids)
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// of gives the tickets that hang in a server.
func (h *hanging) of(s *server) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ids := range h.now[s] {
		all = append(all, ids...)
	}
	return all
}

// TestDeadDirectorsTicketsAreMatched kills one director after the other while it waits for allocations that never end.
// Others match the tickets that it held, but not before its claims' deadlines.
func TestDeadDirectorsTicketsAreMatched(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		const deaths, survivor = 4, "survivor"
		a := newArena(t, url, definition(t, "duel", `{"pendingTimeout":"500ms"}`))
		hanging := &hanging{now: map[*server][][]string{}}
		a.allocate = func(ctx context.Context, s *server, p matchmaking.Proposal) error {
			// Half of those that hang do so in the survivor, too, which gives them up and tries again.
			if last := p.ID[len(p.ID)-1]; last%4 == 0 || last%2 == 0 && s.name != survivor {
				return hanging.hang(ctx, s, p)
			}
			return nil
		}
		stop := a.come(15*time.Millisecond, steady("duel", 6))
		var orphans []hold
		for i := range deaths {
			name := fmt.Sprintf("dies%d", i)
			a.start(t, name)
			victim := a.directing(t, "duel")
			a.eventually(t, "allocations to hang", func() bool { return len(hanging.of(victim)) >= 4 })
			a.kill(victim)
			for _, h := range a.ledger.holding(hanging.of(victim)) {
				orphans = append(orphans, h)
			}
		}
		stop()
		a.start(t, survivor)
		a.crowd(50, 5*time.Millisecond, steady("duel", 6))
		counts := a.judge(t)
		require.NotZero(t, counts[matchmaking.MatchFound])

		inherited := 0
		for _, h := range orphans {
			for _, next := range a.ledger.holds[h.ticket] {
				if next.token != h.token && !next.from.Before(h.until) {
					inherited++
					break
				}
			}
		}
		require.NotZero(t, inherited, "tickets were taken over from the dead")
		t.Logf("%d of %d tickets were taken over after the deadline of a dead director", inherited, len(orphans))
	})
}

// TestDeadRelaysMessagesArriveOnce has relays die between any two steps: before they publish, and when they have
// published and not yet removed from the outbox what they published. Others publish that again, and no player sees it
// twice, or never.
func TestDeadRelaysMessagesArriveOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		a := newArena(t, url, definition(t, "duel", `{"pendingTimeout":"500ms"}`))
		var steps atomic.Int64 // that were begun and will never be done
		never := func(ctx context.Context, s *server) error {
			steps.Add(1)
			select {
			case <-s.life.Done():
			case <-ctx.Done():
			}
			return errTorn
		}
		unpublished := func(s *server) {
			s.queues.publishing = func(ctx context.Context, _ string) error { return never(ctx, s) }
		}
		unremoved := func(s *server) {
			s.queues.delivered = func(ctx context.Context, _ []string) error { return never(ctx, s) }
		}
		failing := func(s *server) {
			s.queues.delivered = func(context.Context, []string) error {
				steps.Add(1)
				return errTorn
			}
		}
		stop := a.come(5*time.Millisecond, steady("duel", 6))
		for _, broken := range []hook{unpublished, unremoved, failing, unpublished} {
			victim, before := a.start(t, "dies", broken), steps.Load()
			a.eventually(t, "messages that are stuck", func() bool { return steps.Load() >= before+4 })
			a.kill(victim)
		}
		stop()
		a.start(t, "half dead", failing)
		a.start(t, "survivor")
		a.crowd(40, 5*time.Millisecond, steady("duel", 6))
		a.judge(t)
		require.NotZero(t, a.ledger.repeats(), "messages were published again")
	})
}
