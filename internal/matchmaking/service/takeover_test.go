package service_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/lease"
)

// directs makes a service direct a queue, unless another one does, and waits until the queue has a director.
func directs(t *testing.T, s *service.Service, queue string) {
	t.Helper()
	created := create(t, s, service.NewTicket{Queue: queue}) // so that the queue isn't idle
	require.Eventually(t, func() bool {
		d, err := s.Describe(t.Context(), queue)
		return err == nil && d.Directed
	}, soon, 5*time.Millisecond)
	require.NoError(t, s.Cancel(t.Context(), created.ID))
}

// A director is paused before it assigns a match. Meanwhile its successor matches the tickets.
func TestAPausedDirectorAssignsNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		o := w.options(t, define(t, "duel", `{}`))
		_, queues := w.connect(t)
		paused := &tampered{Store: queues}
		matched, awake, outcomes := make(chan struct{}, 16), make(chan struct{}),
			make(chan []matchmaking.AssignOutcome, 16)
		paused.assign = func(ctx context.Context, r matchmaking.AssignRequest) []matchmaking.AssignOutcome {
			paused.dead.Store(true) // its lease isn't renewed
			matched <- struct{}{}
			<-awake
			paused.dead.Store(false)
			created := queues.Assign(ctx, r)
			outcomes <- created
			return created
		}
		first := o
		first.Store = paused
		a := newService(t, first)
		background(t, a.Run)
		directs(t, a, "duel")
		x, y := create(t, a, service.NewTicket{Queue: "duel"}), create(t, a, service.NewTicket{Queue: "duel"})
		<-matched
		background(t, newService(t, o).Run)
		w.requireMatched(t, x.ID, y.ID)
		close(awake)
		for _, outcome := range <-outcomes {
			require.ErrorIs(t, outcome.Err, lease.ErrLost)
		}
		w.requireNoMore(t, "duel", x.ID, y.ID)
	})
}

func TestADirectorThatStopsHandsItsQueueOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	o.LeaseTTL = 10 * time.Second
	a, b := newService(t, o), newService(t, o)
	stop := background(t, a.Run)
	directs(t, a, "duel")
	first := create(t, a, service.NewTicket{Queue: "duel"})
	stop()
	leases := w.queues.Leases()
	_, err := leases.Acquire(t.Context(), lease.Request{Name: "duel", Token: "test", TTL: time.Minute})
	require.NoError(t, err, "the lease is free at once")
	require.NoError(t, leases.Release(t.Context(), "duel", "test"))

	background(t, b.Run)
	second := create(t, b, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, first.ID, second.ID)
}

func TestAStopLetsAllocationsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began, free := make(chan struct{}), make(chan struct{})
	a := &place{}
	a.allocate = func(ctx context.Context, _ matchmaking.Proposal) (matchmaking.Allocation, error) {
		close(began)
		<-free
		return matchmaking.Allocation{Connection: "here"}, ctx.Err()
	}
	o := w.options(t, define(t, "duel", `{}`))
	o.Build, o.Drain = buildWith(a), time.Minute
	s := newService(t, o)
	stop := background(t, s.Run)
	first := create(t, s, service.NewTicket{Queue: "duel"})
	second := create(t, s, service.NewTicket{Queue: "duel"})
	<-began
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	third := create(t, s, service.NewTicket{Queue: "duel"})
	close(free)
	<-stopped
	require.Len(t, w.fetch(t, first.ID, 0).Messages, 1, "what was made is delivered before Run returns")
	require.Len(t, w.fetch(t, second.ID, 0).Messages, 1)
	state, err := w.queues.Describe(t.Context(), "duel", 0)
	require.NoError(t, err)
	require.Equal(t, 1, state.Searching)
	require.Zero(t, state.Outgoing)
	read, err := s.Ticket(t.Context(), third.ID)
	require.NoError(t, err)
	require.Equal(t, matchmaking.Searching, read.Status)
}

func TestAStopGivesAllocationsUpThatTakeTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	a := &place{}
	a.allocate = func(ctx context.Context, _ matchmaking.Proposal) (matchmaking.Allocation, error) {
		close(began)
		<-ctx.Done()
		return matchmaking.Allocation{Token: "half"}, ctx.Err()
	}
	o := w.options(t, define(t, "duel", `{}`))
	o.Build, o.Drain = buildWith(a), 200*time.Millisecond
	s := newService(t, o)
	stop := background(t, s.Run)
	create(t, s, service.NewTicket{Queue: "duel"})
	create(t, s, service.NewTicket{Queue: "duel"})
	<-began
	stop()
	state, err := w.queues.Describe(t.Context(), "duel", 0)
	require.NoError(t, err)
	require.Equal(t, 2, state.Searching, "the claim was given up: %+v", state)
	_, released := a.tried()
	require.Len(t, released, 1)
}
