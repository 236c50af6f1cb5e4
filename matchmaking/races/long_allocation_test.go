package races_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// errTorn is the error of what a test makes fail.
var errTorn = errors.New("the test made this fail")

// late is allocations that give a place when the test opens the gate, whatever their context says. Only the first
// allocation of a ticket is late.
type late struct {
	mu      sync.Mutex
	tickets map[string]bool
	matches map[string]bool
	gate    chan struct{}
	open    func()
}

func newLate() *late {
	l := &late{tickets: map[string]bool{}, matches: map[string]bool{}, gate: make(chan struct{})}
	l.open = sync.OnceFunc(func() { close(l.gate) })
	return l
}

func (l *late) allocate(_ context.Context, _ *server, p matchmaking.Proposal) error {
	if l.enter(p) {
		<-l.gate
	}
	return nil
}

func (l *late) enter(p matchmaking.Proposal) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ticket := range p.Tickets() {
		if l.tickets[ticket.ID] {
			return false
		}
	}
	for _, ticket := range p.Tickets() {
		l.tickets[ticket.ID] = true
	}
	l.matches[p.ID] = true
	return true
}

func (l *late) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.matches)
}

// TestLateAllocationsAreGivenBack has places found only when the claim's deadline is over: while the tickets are
// nobody's, and when another director has matched them anew.
func TestLateAllocationsAreGivenBack(t *testing.T) {
	t.Parallel()
	const players = 40
	begin := func(t *testing.T, url string, lease time.Duration) (*arena, *late) {
		t.Helper()
		a, l := newArena(t, url, definition(t, "duel", `{"pendingTimeout":"300ms"}`)), newLate()
		a.allocate, a.leaseTTL = l.allocate, lease
		a.start(t, "first")
		t.Cleanup(l.open)
		a.crowd(players, 0, func(*rand.Rand) plan { return plan{queue: "duel"} })
		a.eventually(t, "all places to be looked for", func() bool { return l.count() == players/2 })
		return a, l
	}
	judge := func(t *testing.T, a *arena, l *late) {
		t.Helper()
		require.Equal(t, tally{matchmaking.MatchFound: players}, a.judge(t))
		for id := range l.matches {
			e := a.ledger.matches[id]
			require.False(t, e.assigned, "match %s came too late", id)
			want := []matchmaking.Allocation{{Connection: placeOf(id), Token: "token-of-" + id}}
			require.Equal(t, want, e.released, "the place of match %s was given back", id)
		}
	}
	t.Run("tickets are free", func(t *testing.T) {
		t.Parallel()
		everywhere(t, func(t *testing.T, url string) {
			a, l := begin(t, url, time.Hour) // no other director takes the tickets
			a.eventually(t, "the claims to end", func() bool {
				state, err := a.umpire.queues.Describe(t.Context(), "duel", 0)
				return err == nil && state.Searching == players
			})
			l.open()
			judge(t, a, l)
			require.Equal(t, map[matchmaking.ConflictReason]int{matchmaking.ConflictClaim: players / 2}, a.ledger.conflicts)
		})
	})
	t.Run("tickets are matched anew", func(t *testing.T) {
		t.Parallel()
		everywhere(t, func(t *testing.T, url string) {
			a, l := begin(t, url, leaseTTL)
			second := a.start(t, "second")
			lease := a.ledger.lease("duel")
			a.eventually(t, "another director", func() bool {
				a.reportStorage(t.Context(), a.umpire.queues.Resign(t.Context(), "duel", lease))
				return a.ledger.leads(second, "duel")
			})
			a.eventually(t, "the tickets to be matched", func() bool {
				return a.ledger.count(func(e *entry) bool { return e.assigned }) == players/2
			})
			l.open()
			judge(t, a, l)
			require.Equal(t, map[matchmaking.ConflictReason]int{matchmaking.ConflictGone: players / 2}, a.ledger.conflicts)
		})
	})
}
