package director

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// lease is the direction of a queue, while it is valid. It may be used by many goroutines.
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

// candidacy is the outcome of a request for the lease.
type candidacy struct {
	lease *lease
	err   error // ErrLeaseLost: another holds it; ErrQueueIdle
}

// isCertain reports whether the outcome is known: the request did not fail.
func (c candidacy) isCertain() bool {
	return c.err == nil || errors.Is(c.err, matchmaking.ErrLeaseLost) || errors.Is(c.err, matchmaking.ErrQueueIdle)
}

// request asks for the lease once. If it may have been given after ctx has ended, it is released.
func (d *director) request(ctx context.Context) candidacy {
	l := &lease{id: id.New(), ttl: d.LeaseTTL}
	c := candidacy{lease: l, err: d.ask(ctx, l, d.Store.Campaign)}
	if ctx.Err() != nil && !c.isCertain() {
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
		case errors.Is(c.err, matchmaking.ErrQueueIdle) && d.tasks.None():
			d.electing.Report(ctx, nil)
			return nil, false
		case c.isCertain():
			d.electing.Report(ctx, nil)
			wait.Reset()
			d.events.awaitFree(ctx, pace.Jitter(d.LeaseTTL/3))
		default:
			d.electing.Report(ctx, c.err)
			// The lease may have been given all the same. It is released, so that the next try need not wait for its end.
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

// ask asks for the lease, or for more of it.
func (d *director) ask(ctx context.Context, l *lease, how func(context.Context, matchmaking.LeaseRequest) (time.Time, error)) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(ctx, l.ttl)
	defer cancel()
	now, err := how(ctx, matchmaking.LeaseRequest{Queue: d.Definition.Name, Lease: l.id, TTL: l.ttl})
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	d.clock.Observe(sent, now)
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

// resignTimeout bounds the release of a lease. If that fails the lease ends by itself.
const resignTimeout = time.Second

func (d *director) resign(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := d.Store.Resign(ctx, d.Definition.Name, l.id); err != nil {
		d.log.DebugContext(ctx, "cannot release the queue lease", "error", err)
	}
}
