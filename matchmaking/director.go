package matchmaking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// director is what a server does for one queue under one definition: it campaigns for the queue's lease, directs the
// queue for as long as it has it, which is a term, and campaigns again.
//
//	         ┌──────────── lost ◄─────────────┐
//	         ▼                                │
//	build ─► campaign ──► term: feed ──► loop ┴─► ctx ended: finish what is being made ─► resign
//
// run owns everything. What a term leaves behind when it loses the lease are the matches that it had claimed: works.
// They come to their end by themselves, since assigning decides, not the lease.
type director struct {
	queue    *queue
	build    Build
	store    Store
	channels Channels
	relay    *relay
	metrics  *queueMetrics
	log      *slog.Logger
	leaseTTL time.Duration
	drain    time.Duration

	clock    storageClock
	directs  atomic.Bool    // a term is on
	works    sync.WaitGroup // matches that are being made; added to by terms and by works
	makers   chan struct{}  // as many as allocations, and releases of allocations, that run at the same time
	unplaced atomic.Int32   // allocations that failed in succession

	building, electing, storing, allocating *outage
}

// maxAllocations is how many allocations of a queue, and releases of them, run at the same time.
const maxAllocations = 64

func newDirector(q *queue, s *Service) *director {
	log := s.log.With("queue", q.Name)
	return &director{
		queue: q, build: s.queues.build, store: s.store, channels: s.channels, relay: s.relay,
		metrics: s.metrics.queue(q.Name), log: log, leaseTTL: s.leaseTTL, drain: s.drain,
		makers:     make(chan struct{}, maxAllocations),
		building:   newOutage(log, "the queue can't be built"),
		electing:   newOutage(log, "the queue's direction can't be had"),
		storing:    newOutage(log, "matches can't be made: the storage fails"),
		allocating: newOutage(log, "matches find no place to play at"),
	}
}

// run directs the queue whenever it can, until ctx ends. Then it lets the matches that are being made come to their
// end, for drain at most, gives the others up, and returns when none is left.
func (d *director) run(ctx context.Context) {
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	for ctx.Err() == nil {
		parts, err := d.build(d.queue.Definition)
		d.building.report(ctx, err)
		if err != nil {
			pause(ctx, jitter(d.leaseTTL))
			continue
		}
		if lease, ok := d.campaign(ctx); ok {
			d.direct(ctx, &term{director: d, parts: parts, lease: lease, work: work, giveUp: giveUp})
		}
	}
	d.finish(giveUp)
}

// finish waits for the matches that are being made, and gives them up after drain.
func (d *director) finish(giveUp context.CancelFunc) {
	timer := time.AfterFunc(d.drain, giveUp)
	defer timer.Stop()
	d.works.Wait()
}

// campaign asks for the lease until it is given or ctx ends.
func (d *director) campaign(ctx context.Context) (*lease, bool) {
	var wait backoff
	for ctx.Err() == nil {
		l := &lease{id: newID(), ttl: d.leaseTTL}
		err := d.renew(ctx, l)
		if err == nil {
			d.electing.report(ctx, nil)
			return l, true
		}
		if errors.Is(err, ErrLeaseLost) {
			d.electing.report(ctx, nil)
			wait.reset()
			pause(ctx, jitter(d.leaseTTL/3))
			continue
		}
		d.electing.report(ctx, err)
		// The lease may have been given all the same. It is resigned, so that the next try needn't wait for its end.
		pause(ctx, wait.next())
		d.resign(ctx, l)
	}
	return nil, false
}

// lease is the direction of a queue, while it is valid.
type lease struct {
	id    string
	ttl   time.Duration
	until time.Time // by this server's clock; owned by who renews
}

// renew asks for the lease, or for more of it.
func (d *director) renew(ctx context.Context, l *lease) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	now, err := d.store.Lease(ctx, LeaseRequest{Queue: d.queue.Name, Lease: l.id, TTL: l.ttl})
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	d.clock.observe(sent, now)
	l.until = sent.Add(l.ttl)
	return nil
}

// keep renews the lease until ctx ends, or the lease is lost: then it calls lost.
func (d *director) keep(ctx context.Context, l *lease, lost context.CancelFunc) {
	wait := l.ttl / 3
	for pause(ctx, jitter(wait)) {
		valid, cancel := context.WithDeadline(ctx, l.until)
		err := d.renew(valid, l)
		cancel()
		switch {
		case err == nil:
			wait = l.ttl / 3
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrLeaseLost) || !time.Now().Before(l.until):
			d.log.WarnContext(ctx, "the queue's direction is lost", "error", err)
			lost()
			return
		default:
			wait = min(l.ttl/10, time.Until(l.until))
		}
	}
}

// resignTimeout bounds the last call of a director. If it fails the lease ends by itself.
const resignTimeout = time.Second

func (d *director) resign(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := d.store.Resign(ctx, d.queue.Name, l.id); err != nil {
		d.log.DebugContext(ctx, "the queue's direction can't be given up", "error", err)
	}
}

// direct is a term. It ends when ctx ends or the lease is lost.
func (d *director) direct(ctx context.Context, t *term) {
	held, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	proposing, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(held, stop)()

	d.directs.Store(true)
	d.metrics.directs(true)
	d.log.InfoContext(ctx, "directing the queue")
	var running sync.WaitGroup
	running.Go(func() { d.keep(held, t.lease, end) })
	t.run(proposing, end)
	if ctx.Err() != nil { // and while others wait for the lease, so that they find the tickets as they are left
		d.finish(t.giveUp)
	}
	lost := held.Err() != nil
	end()
	running.Wait()
	d.directs.Store(false)
	d.metrics.directs(false)
	if !lost {
		d.resign(ctx, t.lease)
	}
	d.log.InfoContext(ctx, "not directing the queue any more")
}
