package director

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// director is what a server does for one queue under one definition while the queue isn't idle: it campaigns for the
// queue's lease, directs the queue for as long as it has it, which is a term, and campaigns again.
//
//	    ┌─────── lost, or empty for a while: resign ◄────────┐
//	    ▼                                                    │
//	campaign ──► build ──► term: feed ──► loop ──────────────┴─► ctx ended: finish what is being made ─► resign
//	    └─► nobody has the lease and the queue is empty: idle
//
// run owns everything. What a term leaves behind when it loses the lease are the matches that it had claimed: works.
// They come to their end by themselves, since assigning decides, not the lease.
type director struct {
	*Options
	news    *news
	metrics Metrics
	outbox  Outbox
	log     *slog.Logger

	clock    storageClock
	directs  atomic.Bool   // a term is on
	works    works         // matches that are being made; added to by terms and by works
	makers   chan struct{} // as many as allocations, and releases of allocations, that run at the same time
	unplaced allocationBackoff

	building, electing, storing, allocating *outage.Outage
}

// maxAllocations is how many allocations of a queue, and releases of them, run at the same time.
const maxAllocations = 64

// works are the goroutines of matches that are being made.
type works struct {
	running sync.WaitGroup
	count   atomic.Int32
}

// Go runs f in a goroutine of its own.
func (w *works) Go(f func()) {
	w.count.Add(1)
	w.running.Go(func() {
		defer w.count.Add(-1)
		f()
	})
}

// none reports whether no work runs.
func (w *works) none() bool { return w.count.Load() == 0 }

func newDirector(o *Options, n *news) *director {
	log := o.Logger.With("queue", o.Definition.Name)
	return &director{
		Options: o, news: n, log: log,
		makers: make(chan struct{}, maxAllocations), unplaced: allocationBackoff{wait: pace.NewBackoff()},
		building:   outage.New(log, "cannot build the queue"),
		electing:   outage.New(log, "cannot acquire the queue lease"),
		storing:    outage.New(log, "storage failing, no matches made"),
		allocating: outage.New(log, "allocation failing"),
	}
}

// run directs the queue whenever it can, until ctx ends or the queue is idle. Then it lets the matches that are being
// made come to their end, for drain at most, gives the others up, and returns when none is left. first is the outcome of
// a request for the lease.
func (d *director) run(ctx context.Context, first candidacy) {
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	for c := first; ; {
		l, ok := d.campaign(ctx, c)
		if !ok {
			break
		}
		parts, err := d.Build(d.Definition)
		d.building.Report(ctx, err)
		if err != nil {
			d.resign(ctx, l)
			pace.Sleep(ctx, pace.Jitter(d.LeaseTTL))
		} else {
			d.direct(ctx, &term{director: d, parts: parts, lease: l, work: work, giveUp: giveUp})
		}
		if ctx.Err() != nil {
			break
		}
		c = d.request(ctx)
	}
	d.finish(giveUp)
}

// finish waits for the matches that are being made, and gives them up after drain.
func (d *director) finish(giveUp context.CancelFunc) {
	timer := time.AfterFunc(d.Drain, giveUp)
	defer timer.Stop()
	d.works.running.Wait()
}

// candidacy is the outcome of a request for the lease.
type candidacy struct {
	lease *lease
	err   error // ErrLeaseLost: another holds it; ErrQueueIdle
}

// known reports whether it is known who has the lease.
func (c candidacy) known() bool {
	return c.err == nil || errors.Is(c.err, matchmaking.ErrLeaseLost) || errors.Is(c.err, matchmaking.ErrQueueIdle)
}

// request asks for the lease. One that was perhaps given although ctx has ended is resigned.
func (d *director) request(ctx context.Context) candidacy {
	l := &lease{id: matchmaking.NewID(), ttl: d.LeaseTTL}
	c := candidacy{lease: l, err: d.ask(ctx, l, d.Store.Campaign)}
	if ctx.Err() != nil && !c.known() {
		d.resign(ctx, l)
	}
	return c
}

// campaign asks for the lease until it is given, ctx ends, or the queue is idle. c is the outcome of the first request.
func (d *director) campaign(ctx context.Context, c candidacy) (*lease, bool) {
	wait := pace.NewBackoff()
	for ctx.Err() == nil {
		switch {
		case c.err == nil:
			d.electing.Report(ctx, nil)
			return c.lease, true
		case errors.Is(c.err, matchmaking.ErrQueueIdle) && d.works.none():
			d.electing.Report(ctx, nil)
			return nil, false
		case errors.Is(c.err, matchmaking.ErrQueueIdle), errors.Is(c.err, matchmaking.ErrLeaseLost):
			d.electing.Report(ctx, nil)
			wait.Reset()
			d.news.awaitFree(ctx, pace.Jitter(d.LeaseTTL/3))
		default:
			d.electing.Report(ctx, c.err)
			// The lease may have been given all the same. It is resigned, so that the next try needn't wait for its end.
			pace.Sleep(ctx, wait.NextBackOff())
			d.resign(ctx, c.lease)
		}
		c = d.request(ctx)
	}
	if c.err == nil {
		d.resign(ctx, c.lease)
	}
	return nil, false
}

// lease is the direction of a queue, while it is valid.
type lease struct {
	id  string
	ttl time.Duration

	mu    sync.Mutex
	until time.Time // by this server's clock
}

// end returns until when the lease is valid, by this server's clock.
func (l *lease) end() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

func (l *lease) prolong(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}

// ask asks for the lease, or for more of it.
func (d *director) ask(ctx context.Context, l *lease, how func(context.Context, matchmaking.LeaseRequest) (time.Time, error)) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	now, err := how(ctx, matchmaking.LeaseRequest{Queue: d.Definition.Name, Lease: l.id, TTL: l.ttl})
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	d.clock.observe(sent, now)
	l.prolong(sent.Add(l.ttl))
	return nil
}

// keep renews the lease until ctx ends, or the lease is lost: then it calls lost.
func (d *director) keep(ctx context.Context, l *lease, lost context.CancelFunc) {
	wait := l.ttl / 3
	for pace.Sleep(ctx, pace.Jitter(wait)) {
		valid, cancel := context.WithDeadline(ctx, l.end())
		err := d.ask(valid, l, d.Store.Lease)
		cancel()
		switch {
		case err == nil:
			wait = l.ttl / 3
		case ctx.Err() != nil:
			return
		case errors.Is(err, matchmaking.ErrLeaseLost) || !time.Now().Before(l.end()):
			d.log.WarnContext(ctx, "queue lease lost", "error", err)
			lost()
			return
		default:
			wait = min(l.ttl/10, time.Until(l.end()))
		}
	}
}

// resignTimeout bounds the last call of a director. If it fails the lease ends by itself.
const resignTimeout = time.Second

func (d *director) resign(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := d.Store.Resign(ctx, d.Definition.Name, l.id); err != nil {
		d.log.DebugContext(ctx, "cannot release the queue lease", "error", err)
	}
}

// direct is a term. It ends when ctx ends, the lease is lost, or the queue was empty for a while.
func (d *director) direct(ctx context.Context, t *term) {
	held, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	proposing, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(held, stop)()

	d.directs.Store(true)
	d.metrics.Directing(true)
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
	d.metrics.Directing(false)
	if lost {
		t.findLost(t.remembered())
	} else {
		d.resign(ctx, t.lease)
	}
	d.log.InfoContext(ctx, "not directing the queue any more")
}
