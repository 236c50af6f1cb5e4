package service_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/test/redistest"
)

// becomesIdle waits until no server directs a queue.
func (w *world) becomesIdle(t *testing.T, queue string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := w.queues.Leases().Acquire(t.Context(), lease.Request{Name: queue, Token: "test", TTL: time.Minute})
		return errors.Is(err, matchmaking.ErrQueueIdle)
	}, soon, 5*time.Millisecond)
}

// pair starts two servers with separate connections, which release an empty queue quickly.
func (w *world) pair(t *testing.T) (a, b *service.Service) {
	t.Helper()
	o := w.options(t, define(t, "duel", `{}`))
	o.IdleAfter = 20 * time.Millisecond
	a = newService(t, o)
	_, o.Store = w.connect(t)
	b = newService(t, o)
	background(t, a.Run)
	background(t, b.Run)
	return a, b
}

func TestAnIdleQueueIsDirectedAgainWhenATicketComes(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, w *world) {
		a, b := w.pair(t)
		for i := range 6 {
			at := []*service.Service{a, b}[i%2]
			first := create(t, at, service.NewTicket{Queue: "duel"})
			second := create(t, at, service.NewTicket{Queue: "duel"})
			w.requireMatched(t, first.ID, second.ID)
			w.emptied(t, "duel")
			w.becomesIdle(t, "duel")
		}
	})
}

// deaf is a store that drops all notifications, except those that report possible loss.
type deaf struct {
	matchmaking.Store
	back chan struct{} // receives a value for each metric of the queue duel
}

func (d *deaf) Watch(ctx context.Context, queue string, notify func(free bool)) {
	d.Store.Watch(ctx, queue, func(free bool) {
		if !free {
			return
		}
		notify(true)
		if queue == "duel" {
			d.back <- struct{}{}
		}
	})
}

// Notifications are lost while their connection is cut. The changes are read after the reconnection.
func TestALostNotificationLosesNoTicket(t *testing.T) {
	t.Parallel()
	n := redistest.Start(t, redistest.Options{})
	w := openWorld(t, n.URL())
	d := &deaf{Store: w.queues, back: make(chan struct{}, 100)}
	o := w.options(t, define(t, "duel", `{}`))
	o.Store, o.IdleAfter = d, 20*time.Millisecond
	s := newService(t, o)
	background(t, s.Run)
	<-d.back
	for range 5 {
		w.becomesIdle(t, "duel")
		first := create(t, s, service.NewTicket{Queue: "duel"})
		second := create(t, s, service.NewTicket{Queue: "duel"})
		require.NoError(t, n.Do(t, "CLIENT", "KILL", "TYPE", "pubsub").Error())
		<-d.back
		w.requireMatched(t, first.ID, second.ID)
		w.emptied(t, "duel")
	}
}

// A single ticket keeps its queue directed, and the next server finds the ticket after the director has stopped.
func TestAQueueWithATicketIsNotIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.options(t, define(t, "duel", `{}`))
	o.IdleAfter = 20 * time.Millisecond
	a := newService(t, o)
	stop := background(t, a.Run)
	first := create(t, a, service.NewTicket{Queue: "duel"})
	stop()
	background(t, newService(t, o).Run)
	second := create(t, a, service.NewTicket{Queue: "duel"})
	w.requireMatched(t, first.ID, second.ID)
}
