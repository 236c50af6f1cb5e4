package service

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
)

// renewBatch is how many tickets are renewed in one call.
const renewBatch = 500

// attendance renews the tickets of players who poll or watch, in queues with a heartbeat. Its run owns the only
// goroutine; the other methods may be called by many.
type attendance struct {
	store matchmaking.Tickets
	log   *slog.Logger
	came  chan struct{} // has one place: there is something in fresh

	mu     sync.Mutex
	queues map[string]*attended
}

// attended are a queue's tickets whose players are there.
type attended struct {
	beat  time.Duration      // how often they are renewed
	due   time.Time          // when they are renewed next
	here  map[string]*player // by the ticket's ID
	fresh []string           // tickets to renew at once
}

// player is somebody who polls or watches, with several requests perhaps.
type player struct {
	requests int
	until    time.Time // when the ticket isn't renewed any more
}

func newAttendance(store matchmaking.Tickets, log *slog.Logger) *attendance {
	return &attendance{store: store, log: log, came: make(chan struct{}, 1), queues: map[string]*attended{}}
}

// Attend tells that the ticket's player polls or watches, until stop is called. In a queue with a heartbeat the ticket
// is renewed at once, and then three times in a heartbeat while its player is there, until the end of its Life. Where no
// queue has a heartbeat Attend does nothing. It never fails: a ticket that can't be looked up now isn't renewed by this call. stop must be
// called; further calls of it do nothing.
func (s *Service) Attend(ctx context.Context, id string) (stop func()) {
	if !s.queues.pulses() {
		return func() {}
	}
	name, err := s.queueOf(ctx, id)
	if err != nil {
		return func() {}
	}
	q := s.queues.known()[name]
	if q == nil || q.Heartbeat == 0 {
		return func() {}
	}
	t, err := s.o.Store.Ticket(ctx, name, id)
	if err != nil || t.Life <= t.TTL || (t.Status != matchmaking.Searching && t.Status != matchmaking.Pending) {
		return func() {}
	}
	s.attendance.enter(q, t)
	return sync.OnceFunc(func() { s.attendance.leave(name, id) })
}

// enter begins to renew a ticket.
func (a *attendance) enter(q *queue, t matchmaking.Ticket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in := a.queues[q.Name]
	if in == nil {
		in = &attended{here: map[string]*player{}}
		a.queues[q.Name] = in
	}
	in.beat = q.Heartbeat.Std() / 3
	p := in.here[t.ID]
	if p == nil {
		// Storage's and this server's clocks are taken for the same: a heartbeat's precision is what is needed here.
		p = &player{}
		in.here[t.ID] = p
	}
	p.until = t.CreateTime.Add(t.Life) // an earlier request may have been for an earlier ticket with this ID
	p.requests++
	if time.Now().Before(p.until) {
		in.fresh = append(in.fresh, t.ID)
		select {
		case a.came <- struct{}{}:
		default:
		}
	}
}

func (a *attendance) leave(queue, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	in := a.queues[queue]
	p := in.here[id]
	if p.requests--; p.requests > 0 {
		return
	}
	delete(in.here, id)
	if len(in.here) == 0 && len(in.fresh) == 0 {
		delete(a.queues, queue)
	}
}

// run renews tickets until ctx ends.
func (a *attendance) run(ctx context.Context) {
	down := outage.New(a.log, "tickets can't be renewed")
	for {
		due, wait := a.collect(time.Now())
		for queue, ids := range due {
			a.renew(ctx, down, queue, ids)
		}
		timer := time.NewTimer(wait)
		select {
		case <-a.came:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// idleBeat is how often a server without attended tickets looks for some, although it is told of each.
const idleBeat = time.Minute

// collect gives the tickets that are to be renewed now, by queue, and when there are more.
func (a *attendance) collect(now time.Time) (due map[string][]string, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	due, wait = map[string][]string{}, idleBeat
	for queue, in := range a.queues {
		ids := in.fresh
		in.fresh = nil
		if !now.Before(in.due) {
			in.due = now.Add(in.beat)
			for id, p := range in.here {
				if now.Before(p.until) {
					ids = append(ids, id) // twice, for a fresh one, does no harm
				}
			}
		}
		if len(ids) > 0 {
			due[queue] = ids
		}
		if len(in.here) == 0 {
			delete(a.queues, queue)
			continue
		}
		wait = min(wait, in.due.Sub(now))
	}
	return due, wait
}

func (a *attendance) renew(ctx context.Context, down *outage.Outage, queue string, ids []string) {
	for batch := range slices.Chunk(ids, renewBatch) {
		err := a.store.Renew(ctx, queue, batch)
		down.Report(ctx, err)
		if err != nil {
			return // the next beat comes before the tickets' end
		}
	}
}
