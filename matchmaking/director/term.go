package director

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// term is the time in which a director has its queue's lease. It holds the queue's waiting tickets in memory, in one
// of three states:
//
//	             ┌── Match proposes it, Claim holds it ──►┐
//	added ──► waiting                                   claimed ──► assigned: forgotten
//	           ▲ ▲                                        │ │
//	           │ └── its match came to nothing ───────────┘ │
//	           │                                            │
//	           └───────────────── parked ◄──────────────────┘
//	                until another claim's deadline, or a moment after a failed allocation
//
// A ticket that is cancelled, has expired or is assigned is forgotten in whatever state. The loop of run is:
//
//	for {
//	    take what came: changes, expired tickets, settled matches    (never waits for storage or allocations)
//	    unpark what is due
//	    if a round is due: Match, Evaluate, Claim; hand the matches to works
//	    else wait for any of these
//	}
//
// run's goroutine owns all fields but the channels, known, parts' Assigner, and what is set before run.
type term struct {
	*director
	parts  matchmaking.Parts
	lease  *lease
	work   context.Context //nolint:containedctx // of works, which outlive the term; see director.run
	giveUp context.CancelFunc
	lost   context.CancelFunc // ends the term
	end    <-chan struct{}    // closed when nobody takes from the channels any more

	fed     chan fed
	swept   chan []string
	settled chan settlement

	tickets map[string]*held
	known   atomic.Int64 // how many there are, for feed
	parked  parking
	claimed int       // tickets
	claims  int       // made so far: the last part of the token
	busy    time.Time // when there was something to do last

	round    rounds
	matching *outage.Outage
}

// held is a ticket in a term's memory.
type held struct {
	ticket *matchmaking.Ticket
	state  state
	parked time.Time // when it is waiting again
	// doubtful is set if it isn't known whether a match of it was assigned.
	doubtful bool
}

type state int

const (
	waiting state = iota // the matcher has it
	parked
	claimed // a work has it
)

// How many tickets can be in matches that are being made; no round is held while there are as many. With an assigner
// that isn't immediate they wait for their turn while their claim's deadline comes nearer, so there can't be many.
const (
	maxClaimedImmediate = 20_000
	maxClaimedSlow      = 2_000
)

// run directs the queue until ctx ends or the queue was empty for a while. It calls lost where it finds that the lease is.
func (t *term) run(ctx context.Context, lost context.CancelFunc) {
	t.lost = lost
	t.tickets = map[string]*held{}
	t.fed, t.swept, t.settled = make(chan fed, 4), make(chan []string), make(chan settlement, 64)
	t.matching = outage.New(t.log, "no matches can be formed")
	t.round.failures = pace.NewBackoff()
	t.round.debounce = t.Definition.Match.Debounce.Std()
	end := make(chan struct{})
	t.end = end

	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	running.Go(func() { t.feed(ctx) })
	running.Go(func() { t.sweep(ctx) })
	t.loop(ctx)
	cancel()
	close(end)
	running.Wait()
}

func (t *term) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	t.busy = time.Now()
	for ctx.Err() == nil {
		t.takeReady()
		now := time.Now()
		t.unpark(now)
		t.known.Store(int64(len(t.tickets)))
		t.metrics.Tickets(len(t.tickets), t.claimed)
		if at, ok := t.nextRound(); ok && !now.Before(at) {
			t.holdRound(ctx)
			continue
		}
		if t.isIdle(now) {
			return
		}
		timer.Reset(t.nextWake(now))
		select {
		case f := <-t.fed:
			t.takeFed(f)
		case ids := <-t.swept:
			t.takeSwept(ids)
		case s := <-t.settled:
			t.takeSettled(s)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// isIdle reports whether there was nothing to do for a while.
func (t *term) isIdle(now time.Time) bool {
	if len(t.tickets) > 0 || !t.works.none() {
		t.busy = now
	}
	return now.Sub(t.busy) >= t.IdleAfter
}

// takeReady takes what is there without waiting.
func (t *term) takeReady() {
	for {
		select {
		case f := <-t.fed:
			t.takeFed(f)
		case ids := <-t.swept:
			t.takeSwept(ids)
		case s := <-t.settled:
			t.takeSettled(s)
		default:
			return
		}
	}
}

func (t *term) takeFed(f fed) {
	if f.snapshot != nil {
		t.takeSnapshot(f.snapshot)
	}
	for _, c := range f.changes {
		switch {
		case c.Added != nil:
			t.add(c.Added)
		case c.Released != "":
			t.released(c.Released)
		default:
			t.forget(c.Cancelled)
		}
	}
}

// takeSnapshot makes the memory what a snapshot is, but for tickets that works have.
func (t *term) takeSnapshot(s *matchmaking.Snapshot) {
	there := make(map[string]bool, len(s.Tickets))
	for _, ticket := range s.Tickets {
		there[ticket.ID] = true
		if until, isHeld := s.Held[ticket.ID]; isHeld && t.tickets[ticket.ID] == nil {
			h := &held{ticket: ticket, state: parked}
			t.tickets[ticket.ID] = h
			t.park(h, t.clock.local(until))
			continue
		}
		t.add(ticket)
	}
	var lost []string
	for id, h := range t.tickets {
		if !there[id] && h.state != claimed {
			if h.isSure() {
				lost = append(lost, id)
			}
			t.forget(id)
		}
	}
	t.findLost(lost)
}

func (t *term) takeSwept(ids []string) {
	for _, id := range ids {
		t.forget(id)
	}
}

// add makes a ticket available, unless it is known. An earlier ticket with its ID is over.
func (t *term) add(ticket *matchmaking.Ticket) {
	if h := t.tickets[ticket.ID]; h != nil && h.ticket.CreateTime.Equal(ticket.CreateTime) {
		return
	}
	t.forget(ticket.ID)
	h := &held{ticket: ticket}
	t.tickets[ticket.ID] = h
	t.offer(h)
}

// offer hands a ticket to the matcher.
func (t *term) offer(h *held) {
	h.state = waiting
	t.parts.Matcher.Add(h.ticket)
	t.round.wanted()
}

// forget drops a ticket. Where a work has it, it isn't taken back from there.
func (t *term) forget(id string) {
	h := t.tickets[id]
	if h == nil {
		return
	}
	delete(t.tickets, id)
	switch h.state {
	case waiting:
		t.parts.Matcher.Remove(id)
	case claimed:
		t.claimed--
	case parked: // what is left of it in parking is passed over
	}
}

// again makes a ticket available whose match came to nothing: at once, or from a time on.
func (t *term) again(h *held, at time.Time) {
	if t.tickets[h.ticket.ID] != h {
		return // it was forgotten
	}
	if h.state == claimed {
		t.claimed--
	}
	if time.Now().Before(at) {
		t.park(h, at)
		return
	}
	t.offer(h)
}

// released makes a ticket available that was left alone until another claim's deadline.
func (t *term) released(id string) {
	h := t.tickets[id]
	if h == nil || h.state != parked {
		return
	}
	if i := slices.Index(t.parked, h); i >= 0 {
		heap.Remove(&t.parked, i)
		t.offer(h)
	}
}

// settlement is what became of tickets that a work had.
type settlement struct {
	over  []string  // assigned, or gone
	again []string  // to be had again
	doubt bool      // these may be assigned
	at    time.Time // from when on; zero: now
}

func (t *term) takeSettled(s settlement) {
	for _, id := range s.over {
		if h := t.tickets[id]; h != nil && h.state == claimed { // else it is a later ticket with the ID
			t.forget(id)
		}
	}
	for _, id := range s.again {
		if h := t.tickets[id]; h != nil && h.state == claimed {
			h.doubtful = h.doubtful || s.doubt
			t.again(h, s.at)
		}
	}
}

// settle tells the loop what became of tickets, unless the term is over. Works call it.
func (t *term) settle(s settlement) {
	select {
	case t.settled <- s:
	case <-t.end:
	}
}

// park has a ticket wait until a time.
func (t *term) park(h *held, at time.Time) {
	h.state, h.parked = parked, at
	heap.Push(&t.parked, h)
}

func (t *term) unpark(now time.Time) {
	for len(t.parked) > 0 && !now.Before(t.parked[0].parked) {
		h, _ := heap.Pop(&t.parked).(*held)
		if h.state == parked && t.tickets[h.ticket.ID] == h {
			t.offer(h)
		}
	}
}

// parking is a heap of parked tickets, by when they are to be unparked.
type parking []*held

func (p parking) Len() int           { return len(p) }
func (p parking) Less(i, j int) bool { return p[i].parked.Before(p[j].parked) }
func (p parking) Swap(i, j int)      { p[i], p[j] = p[j], p[i] }

// Push is heap.Interface's.
func (p *parking) Push(x any) {
	h, _ := x.(*held)
	*p = append(*p, h)
}

// Pop is heap.Interface's.
func (p *parking) Pop() any {
	last := len(*p) - 1
	h := (*p)[last]
	(*p)[last] = nil
	*p = (*p)[:last]
	return h
}
