package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// renewBatch is the number of tickets renewed in one call.
const renewBatch = 500

// heartbeats renews the tickets of present players, in queues with a heartbeat. Its run owns the only goroutine; the
// other methods may be called by many.
type heartbeats struct {
	store matchmaking.Tickets
	log   *slog.Logger
	added chan struct{} // buffered (capacity 1): a ticket was added

	mu     sync.Mutex
	queues map[string]*presentQueue
}

// presentQueue is the tickets of a queue whose players are present.
type presentQueue struct {
	interval time.Duration             // between two renewals
	due      time.Time                 // time of the next renewal of all tickets
	tickets  map[string]*presentPlayer // by ID
	added    []string                  // IDs of tickets to renew at once
}

// presentPlayer is a player with one or several requests in progress.
type presentPlayer struct {
	requests int
	until    time.Time // the end of the ticket's Life
}

func newHeartbeats(store matchmaking.Tickets, log *slog.Logger) *heartbeats {
	return &heartbeats{store: store, log: log, added: make(chan struct{}, 1), queues: map[string]*presentQueue{}}
}

// Attend marks the ticket's player as present, until stop is called. In a queue with a heartbeat the ticket is renewed
// at once, and then three times per heartbeat, until the end of its Life. Otherwise Attend does nothing. It never
// fails: a ticket that can't be looked up isn't renewed by this call. stop must be called; further calls of stop do
// nothing.
func (s *Service) Attend(ctx context.Context, id string) (stop func()) {
	nothing := func() {}
	if !s.registry.hasHeartbeats() {
		return nothing
	}
	name, err := s.queueOf(ctx, id)
	if err != nil {
		return nothing
	}
	q := s.registry.all()[name]
	if q == nil || q.Heartbeat == 0 {
		return nothing
	}
	t, err := s.options.Store.Ticket(ctx, name, id)
	if err != nil || t.Life <= t.TTL || (t.Status != matchmaking.Searching && t.Status != matchmaking.Pending) {
		return nothing
	}
	s.heartbeats.add(&t, q.Heartbeat.Std())
	return sync.OnceFunc(func() { s.heartbeats.remove(name, id) })
}

// add starts the renewal of a ticket.
func (h *heartbeats) add(t *matchmaking.Ticket, heartbeat time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[t.Queue]
	if q == nil {
		q = &presentQueue{tickets: map[string]*presentPlayer{}}
		h.queues[t.Queue] = q
	}
	q.interval = heartbeat / 3
	p := q.tickets[t.ID]
	if p == nil {
		p = &presentPlayer{}
		q.tickets[t.ID] = p
	}
	// until is compared with this server's clock, which is accurate enough for a heartbeat. An earlier request may
	// have been for an earlier ticket with this ID.
	p.until = t.CreateTime.Add(t.Life)
	p.requests++
	if time.Now().Before(p.until) {
		q.added = append(q.added, t.ID)
		pace.Signal(h.added)
	}
}

// remove ends one request of a ticket's player.
func (h *heartbeats) remove(queue, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[queue]
	p := q.tickets[id]
	if p.requests--; p.requests > 0 {
		return
	}
	delete(q.tickets, id)
	if len(q.tickets) == 0 && len(q.added) == 0 {
		delete(h.queues, queue)
	}
}

// run renews tickets until ctx ends.
func (h *heartbeats) run(ctx context.Context) {
	failing := outage.New(h.log, "cannot renew tickets")
	for {
		due, wait := h.collect(time.Now())
		for queue, ids := range due {
			h.renew(ctx, failing, queue, ids)
		}
		timer := time.NewTimer(wait)
		select {
		case <-h.added:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// idleInterval is the interval of collect while no player is present.
const idleInterval = time.Minute

// collect returns the tickets to renew now, by queue, and the time until its next call.
func (h *heartbeats) collect(now time.Time) (due map[string][]string, wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	due, wait = map[string][]string{}, idleInterval
	for queue, q := range h.queues {
		ids := q.added
		q.added = nil
		if !now.Before(q.due) {
			q.due = now.Add(q.interval)
			for id, p := range q.tickets {
				if now.Before(p.until) {
					ids = append(ids, id) // renewing a new one twice is harmless
				}
			}
		}
		if len(ids) > 0 {
			due[queue] = ids
		}
		if len(q.tickets) == 0 {
			delete(h.queues, queue)
			continue
		}
		wait = min(wait, q.due.Sub(now))
	}
	return due, wait
}

func (h *heartbeats) renew(ctx context.Context, failing *outage.Outage, queue string, ids []string) {
	for batch := range slices.Chunk(ids, renewBatch) {
		err := h.store.Renew(ctx, queue, batch)
		failing.Report(ctx, err)
		if err != nil {
			return // the next renewal comes before the tickets' end
		}
	}
}
