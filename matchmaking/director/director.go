package director

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/tidemark-dev/tidemark/matchmaking/director/maker"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/storetime"
)

// director is what a server does for one queue under one definition while the queue isn't idle: it asks for the queue's
// lease, directs the queue for as long as it has it, which is a term, and asks again.
//
//	   ┌─────── lost, or empty for a while: release ◄───────┐
//	   ▼                                                    │
//	campaign ──► build ──► term ────────────────────────────┴─► ctx ended: finish tasks ─► release
//	   └─► nobody has the lease and the queue is empty: idle
//
// A term that loses its lease leaves tasks behind: the matches that it had claimed. They end by themselves, since the
// storage decides about assignments by claims, not by the lease.
type director struct {
	*Options
	events  *events
	metrics Metrics
	outbox  Outbox
	log     *slog.Logger

	clock   storetime.Clock
	directs atomic.Bool // a term is on
	tasks   *maker.Tasks
	health  *maker.Health

	building, electing *outage.Outage
}

func newDirector(ctx context.Context, o *Options, e *events) *director {
	log := o.Logger.With("queue", o.Definition.Name)
	return &director{
		Options: o, events: e, log: log,
		tasks: maker.NewTasks(ctx), health: maker.NewHealth(log),
		building: outage.New(log, "cannot build the queue"),
		electing: outage.New(log, "cannot acquire the queue lease"),
	}
}

// run directs the queue whenever it can, until ctx ends or the queue is idle. Then it lets the tasks finish, for Drain at
// most, and returns when none is left. first is the outcome of a request for the lease.
func (d *director) run(ctx context.Context, first candidacy) {
	defer d.tasks.GiveUp()
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
			d.direct(ctx, l, newTerm(d, l, parts))
		}
		if ctx.Err() != nil {
			break
		}
		c = d.request(ctx)
	}
	d.tasks.Finish(d.Drain)
}

// direct runs a term. It ends when ctx ends, the lease is lost, or the queue was empty for a while.
func (d *director) direct(ctx context.Context, l *lease, t *term) {
	held, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	proposing, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(held, stop)()

	d.directs.Store(true)
	d.metrics.Directing(true)
	d.log.InfoContext(ctx, "directing the queue")
	var running sync.WaitGroup
	running.Go(func() { d.keep(held, l, end) })
	t.run(proposing, end)
	if ctx.Err() != nil { // while others wait for the lease, so that they find the tickets as they are left
		d.tasks.Finish(d.Drain)
	}
	lost := held.Err() != nil
	end()
	running.Wait()
	d.directs.Store(false)
	d.metrics.Directing(false)
	if lost {
		t.losses.check(t.pool.Unassigned())
	} else {
		d.resign(ctx, l)
	}
	d.log.InfoContext(ctx, "not directing the queue any more")
}
