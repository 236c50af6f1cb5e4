package director

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
)

// director directs one queue under one definition while the queue isn't idle: it waits for the queue's lease, directs
// the queue while it holds the lease, which is a term, and waits again.
//
//	  ┌─────── lost, or empty for a while: release ◄───────┐
//	  ▼                                                    │
//	lease ──► build ──► term ──────────────────────────────┴─► ctx ended: finish tasks ─► release
//	  └─► nobody has the lease and the queue is empty: idle
//
// A term that loses its lease leaves tasks behind: its matches in progress. They end by themselves, since the storage
// decides about assignments: by claims, or by the lease if nothing was claimed.
type director struct {
	*Options
	events  *events
	metrics Metrics
	outbox  Outbox
	log     *slog.Logger

	clock   clock
	directs atomic.Bool // a term is running
	tasks   *tasks
	health  *health

	building, acquiring *outage.Outage
}

func newDirector(ctx context.Context, o *Options, e *events) *director {
	log := o.Logger.With("queue", o.Definition.Name)
	return &director{
		Options: o, events: e, log: log,
		tasks: newTasks(ctx), health: newHealth(log),
		building:  outage.New(log, "cannot build the queue"),
		acquiring: outage.New(log, "cannot acquire the queue lease"),
	}
}

// errBuild wraps the error of a queue that cannot be built.
var errBuild = errors.New("build the queue")

// acquireFunc is one of the two ways to get the queue's lease: Hold and TryHold of lease.Manager.
type acquireFunc func(ctx context.Context, name string, f func(ctx context.Context, fence uint64) error) error

// run directs the queue whenever it gets the lease, until ctx ends or the queue is idle. Then it waits for the tasks to
// finish, for Drain at most, and returns when none is left. It calls begin once it has learned that the queue isn't
// idle. It returns an error if it can't learn that.
func (d *director) run(ctx context.Context, begin func()) error {
	defer d.tasks.GiveUp()
	defer d.tasks.Finish(d.Drain)
	wait := pace.NewBackoff()
	acquire := acquireFunc(d.Leases.TryHold)
	for answered := false; ctx.Err() == nil; answered = true {
		err := d.direct(ctx, acquire, begin)
		switch {
		case errors.Is(err, matchmaking.ErrQueueIdle):
			if d.tasks.None() {
				return nil
			}
			d.events.awaitFree(ctx, pace.Jitter(d.LeaseTTL/3))
		case errors.Is(err, lease.ErrHeld):
			begin()
			acquire = d.Leases.Hold
		case errors.Is(err, errBuild):
			pace.Sleep(ctx, pace.Jitter(d.LeaseTTL))
		case err == nil, errors.Is(err, lease.ErrLost):
		case !answered:
			return err
		default:
			d.acquiring.Report(ctx, err)
			pace.Sleep(ctx, wait.NextBackOff())
			continue
		}
		d.acquiring.Report(ctx, nil)
		wait.Reset()
	}
	return nil
}

// direct runs a term, if it gets the lease. The term ends when ctx ends, the lease is lost, or the queue was empty for
// a while.
func (d *director) direct(ctx context.Context, acquire acquireFunc, begin func()) error {
	var t *term
	err := acquire(ctx, d.Definition.Name, func(ctx context.Context, fence uint64) error {
		begin()
		d.acquiring.Report(ctx, nil)
		parts, err := d.Build(d.Definition)
		d.building.Report(ctx, err)
		if err != nil {
			return fmt.Errorf("%w: %w", errBuild, err)
		}
		if d.Definition.ByUser() {
			return d.runTerm(ctx, newUserTerm(d).run)
		}
		// A queue that its user has directed may have backfills, which would keep it from being idle.
		if _, err := d.Store.ExpireBackfills(ctx, d.Definition.Name, expireLimit); err != nil {
			d.log.WarnContext(ctx, "cannot remove expired backfills", "error", err)
		}
		t = newTerm(d, termLease{fence: fence, until: deadlineOf(ctx)}, parts)
		return d.runTerm(ctx, t.run)
	})
	if errors.Is(err, lease.ErrLost) && t != nil {
		d.log.WarnContext(ctx, "queue lease lost", "error", err)
		t.losses.check(t.pool.Unassigned())
	}
	return err
}

// termLease is the lease of a term.
type termLease struct {
	fence uint64
	until func() time.Time // the end of the lease, by this server's clock
}

// deadlineOf returns a function that returns the end of the lease of ctx.
func deadlineOf(ctx context.Context) func() time.Time {
	return func() time.Time {
		until, _ := lease.Deadline(ctx)
		return until
	}
}

func (d *director) runTerm(ctx context.Context, run func(ctx context.Context) error) error {
	d.directs.Store(true)
	defer d.directs.Store(false)
	d.metrics.Directing(true)
	defer d.metrics.Directing(false)
	d.log.InfoContext(ctx, "directing the queue")
	defer d.log.InfoContext(ctx, "not directing the queue any more")
	err := run(ctx)
	// before the lease is released, so that the next holder finds the results
	if ctx.Err() != nil && !errors.Is(err, lease.ErrLost) {
		d.tasks.Finish(d.Drain)
	}
	return err
}

// clock converts between this server's clock and the storage's, by their difference in the last observed reply of the
// storage. Its zero value assumes that they are equal. It may be used by many goroutines.
type clock struct {
	ahead atomic.Int64 // ns that the storage's clock is ahead of this server's
}

// Observe records the storage's time in an answer to a request that was sent at a time.
func (c *clock) Observe(sent, storage time.Time) {
	middle := sent.Add(time.Since(sent) / 2)
	c.ahead.Store(int64(storage.Sub(middle)))
}

// Now returns the storage's time.
func (c *clock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// Local returns the time of this server's clock at a time of the storage's.
func (c *clock) Local(storage time.Time) time.Time {
	return time.Now().Add(storage.Sub(c.Now()))
}

// tasks are a director's goroutines for matches in progress, and for what these give back. They may outlive a term.
type tasks struct {
	ctx    context.Context    //nolint:containedctx // of all tasks, which no caller waits for
	GiveUp context.CancelFunc // ends the context of all tasks

	running sync.WaitGroup
	count   atomic.Int32
}

// newTasks returns tasks whose context has the values of ctx, and ends only when they are given up.
func newTasks(ctx context.Context) *tasks {
	t := &tasks{}
	// the owner of the tasks calls GiveUp
	t.ctx, t.GiveUp = context.WithCancel(context.WithoutCancel(ctx))
	return t
}

// Start runs f in a goroutine of its own.
func (t *tasks) Start(f func(context.Context)) {
	t.count.Add(1)
	t.running.Go(func() {
		defer t.count.Add(-1)
		f(t.ctx)
	})
}

// None reports whether no task runs.
func (t *tasks) None() bool { return t.count.Load() == 0 }

// Finish waits until no task runs. It gives them up when patience is over.
func (t *tasks) Finish(patience time.Duration) {
	timer := time.AfterFunc(patience, t.GiveUp)
	defer timer.Stop()
	t.running.Wait()
}
