package races_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// steady returns plans of players. One player in cancel cancels its ticket.
func steady(queue string, cancel int) func(*rand.Rand) plan {
	return func(r *rand.Rand) plan {
		p := plan{queue: queue, looks: r.IntN(3)}
		if r.IntN(cancel) == 0 {
			p.leaves = between(r, time.Millisecond, 100*time.Millisecond)
		}
		return p
	}
}

// errBroken is the error of calls that a test makes fail.
var errBroken = errors.New("the test made this fail")

// hanging is allocations that end only with their context.
type hanging struct {
	mu  sync.Mutex
	now map[*server][][]string // their tickets
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

// of returns the tickets of hanging allocations of a server.
func (h *hanging) of(s *server) (all []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ids := range h.now[s] {
		all = append(all, ids...)
	}
	return all
}

// TestDeadDirectorsTicketsAreMatched kills one director after the other while its allocations hang. Others match the
// tickets that it claimed, but not before the deadlines of the claims.
func TestDeadDirectorsTicketsAreMatched(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		const deaths, survivor = 4, "survivor"
		a := newArena(t, url, definition(t, "duel", `{"pendingTimeout":"500ms"}`))
		hanging := &hanging{now: map[*server][][]string{}}
		a.allocate = func(ctx context.Context, s *server, p matchmaking.Proposal) error {
			// Half of the allocations that hang also hang in the surviving server, which gives up and retries.
			if last := p.ID[ulid.EncodedSize-1]; last%4 == 0 || last%2 == 0 && s.name != survivor {
				return hanging.hang(ctx, s, p)
			}
			return nil
		}
		stop := a.arrive(15*time.Millisecond, steady("duel", 6))
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
		counts := a.verify(t)
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
		require.NotZero(t, inherited, "no ticket of a dead director was claimed by another")
		t.Logf("%d of %d tickets of dead directors were claimed after the deadline", inherited, len(orphans))
	})
}

// TestDeadRelaysMessagesArriveOnce kills relays between any two steps: before they publish, and before they remove what
// they have published from the outbox. Others publish it again, and each player receives it exactly once.
func TestDeadRelaysMessagesArriveOnce(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, url string) {
		a := newArena(t, url, definition(t, "duel", `{"pendingTimeout":"500ms"}`))
		var steps atomic.Int64 // started and never finished
		never := func(ctx context.Context, s *server) error {
			steps.Add(1)
			select {
			case <-s.life.Done():
			case <-ctx.Done():
			}
			return errBroken
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
				return errBroken
			}
		}
		stop := a.arrive(5*time.Millisecond, steady("duel", 6))
		for _, broken := range []hook{unpublished, unremoved, failing, unpublished} {
			victim, before := a.start(t, "dies", broken), steps.Load()
			a.eventually(t, "stuck messages", func() bool { return steps.Load() >= before+4 })
			a.kill(victim)
		}
		stop()
		a.start(t, "half dead", failing)
		a.start(t, "survivor")
		a.crowd(40, 5*time.Millisecond, steady("duel", 6))
		a.verify(t)
		require.NotZero(t, a.ledger.repeats(), "no message was published again")
	})
}
