package service_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

// Tickets that another claim holds when a director starts are available at its deadline, or when it releases them.
func TestTicketsThatAnotherGivesUpAreMatchedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	o.Build = buildWith(&place{}) // an allocation may be under way
	s := newService(t, o)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	ids := []string{first.ID, second.ID}
	_, err := w.queues.Claim(t.Context(), matchmaking.ClaimRequest{Queue: "duel", Token: "another.1", Hold: time.Hour, IDs: ids})
	require.NoError(t, err)
	background(t, s.Run)
	third := create(t, s, service.NewTicket{Queue: "duel"})
	fourth := create(t, s, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, third.ID, fourth.ID) // so the director is at work

	require.NoError(t, w.queues.Release(t.Context(), "duel", "another.1", ids))
	w.requireMatched(t, first.ID, second.ID)
}

func TestAnAllocationThatTakesTooLongIsAConflict(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		var calls atomic.Int32
		late := make(chan string, 1)
		a := &place{}
		a.allocate = func(ctx context.Context, p matchmaking.Proposal) (matchmaking.Allocation, error) {
			if calls.Add(1) == 1 {
				<-ctx.Done() // and then until no claim holds the tickets
				for state := (matchmaking.QueueState{Pending: 2}); state.Pending > 0; <-time.After(5 * time.Millisecond) {
					state, _ = w.queues.Describe(context.WithoutCancel(ctx), "duel", 0)
				}
				late <- p.ID
				return matchmaking.Allocation{Connection: "late", Token: "mine"}, nil
			}
			return matchmaking.Allocation{Connection: "in time"}, nil
		}
		o := w.options(t, define(t, "duel", `{"pendingTimeout":"300ms"}`))
		o.Build = buildWith(a)
		s := newService(t, o)
		background(t, s.Run)
		first := create(t, s, service.NewTicket{Queue: "duel"})
		second := create(t, s, service.NewTicket{Queue: "duel"})
		require.Equal(t, "in time", w.requireMatched(t, first.ID, second.ID).Connection)
		w.requireNoMore(t, "duel", first.ID, second.ID)

		match := <-late
		require.Eventually(t, func() bool {
			_, released := a.tried()
			return released[match].Token == "mine"
		}, soon, time.Millisecond)
		state, err := w.queues.Describe(t.Context(), "duel", 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, state.Conflicts)
	})
}

func TestAnAssignmentWhoseOutcomeIsNotKnown(t *testing.T) {
	t.Parallel()
	for name, applied := range map[string]bool{"made": true, "not made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := &place{}
			var calls atomic.Int32
			o := w.options(t, define(t, "duel", `{}`))
			o.Build = buildWith(a)
			o.Store = &tampered{Store: w.queues, assign: func(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
				failing := calls.Add(1) <= 3
				if failing && !applied {
					return slices.Repeat([]matchmaking.AssignOutcome{{Err: fault.ErrUnavailable}}, len(r.Matches))
				}
				outcomes := w.queues.Assign(ctx, r)
				if failing {
					return nil // as if the answer was lost
				}
				return outcomes
			}}
			s := newService(t, o)
			background(t, s.Run)
			first := create(t, s, service.NewTicket{Queue: "duel"})
			second := create(t, s, service.NewTicket{Queue: "duel"})
			w.requireMatched(t, first.ID, second.ID)
			w.requireNoMore(t, "duel", first.ID, second.ID)
			require.Eventually(t, func() bool { return calls.Load() == 4 }, soon, time.Millisecond)
			allocated, released := a.tried()
			require.Equal(t, 1, allocated)
			require.Empty(t, released)
		})
	}
}

func TestALeaseThatIsLostInTheMiddleOfARound(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "duel", `{}`))
		var once sync.Once
		var thief atomic.Bool
		store := &tampered{Store: w.queues}
		store.claim = func(ctx context.Context, r matchmaking.ClaimRequest) {
			once.Do(func() {
				store.dethrone(ctx, r.Queue)
				_, err := w.queues.Leases().Acquire(ctx, lease.Request{Name: r.Queue, Token: "thief", TTL: 300 * time.Millisecond})
				thief.Store(err == nil)
			})
		}
		o.Store = store
		s := newService(t, o)
		background(t, s.Run)
		first := create(t, s, service.NewTicket{Queue: "duel"})
		second := create(t, s, service.NewTicket{Queue: "duel"})
		w.requireMatched(t, first.ID, second.ID)
		require.True(t, thief.Load())
		w.requireNoMore(t, "duel", first.ID, second.ID)
	})
}
