package director

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/round"
	"github.com/tidemark-dev/tidemark/lease"
)

// term directs a queue while the director holds its lease. Its loop is the only user of its pool, schedule and round:
//
//	for {
//	    update the pool: reads of the feed, expired tickets, outcomes of matches    (never waits)
//	    if a round is due: form matches of the pool; the maker claims them if need be, and makes them in the background
//	    else wait for any of these
//	}
type term struct {
	pool     *round.Pool
	round    *round.Round
	schedule *round.Schedule
	maker    *maker
	feed     *feed
	sweeper  *sweeper
	losses   *losses
	clock    *clock
	metrics  Metrics
	log      *slog.Logger
	matching *outage.Outage

	outcomes  chan outcome            // from tasks
	end       chan struct{}           // closed when outcomes has no receiver any more
	endTerm   context.CancelCauseFunc // ends the term
	lastWork  time.Time               // when there was work last
	idleAfter time.Duration           // the term ends after so long without work
	follow    matchmaking.Follow
	traces    []string // of tickets that arrived since the last round, maxTraces at most
	pauseAt   int      // no round is held with so many tickets in matches in progress
}

// The limits of tickets in matches in progress. With an assigner that isn't immediate, matches wait for their
// allocation while the deadline of their claim approaches, so the limit is low. With an immediate one the matches of a
// round are assigned before the next round is held: tickets that arrive meanwhile are matched, and assigned, together.
const (
	maxInMatchesImmediate = 20_000
	maxInMatchesSlow      = 2_000
)

// newTerm returns the term of a lease.
func newTerm(d *director, l termLease, parts matchmaking.Parts) *term {
	def := &d.Definition
	t := &term{
		schedule: round.NewSchedule(def.Match.Debounce.Std()),
		clock:    &d.clock, metrics: d.metrics, log: d.log,
		matching: outage.New(d.log, "no matches can be formed"),
		outcomes: make(chan outcome, 64), end: make(chan struct{}), idleAfter: d.IdleAfter,
		pauseAt: maxInMatchesSlow, follow: d.Follow,
	}
	immediate := isImmediate(parts.Assigner)
	t.round = &round.Round{
		Queue:   def.Name,
		Matcher: parts.Matcher, Evaluator: parts.Evaluator,
		MatchTimeout: def.Match.Timeout.Std(), EvaluateTimeout: def.Evaluator.Timeout.Std(),
		MaxInMatches: maxInMatchesSlow,
	}
	if immediate {
		t.round.MaxInMatches, t.pauseAt = maxInMatchesImmediate, 1
	}
	t.pool = round.NewPool(parts.Matcher)
	t.maker = &maker{
		store: d.Store, assigner: parts.Assigner, outbox: d.outbox, definition: def, clock: &d.clock,
		follow: d.Follow, tasks: d.tasks, health: d.health, metrics: d.metrics, log: d.log, fence: l.fence,
		report: t.report,
	}
	players := &players{subscriptions: d.Subscriptions, log: d.log}
	t.losses = &losses{store: d.Store, players: players, queue: def.Name, keep: def.AssignmentTTL.Std(),
		leaseEnd: l.until, tasks: d.tasks, log: d.log}
	t.sweeper = newSweeper(d, players)
	t.feed = &feed{
		store: d.Store, queue: def.Name, fields: cmp.Or(parts.Fields, matchmaking.FieldsAll), fence: l.fence,
		takesOver: immediate, auditEvery: auditEvery * d.LeaseTTL,
		clock: &d.clock, log: d.log, out: make(chan feedUpdate, 4),
	}
	return t
}

// run directs the queue until ctx ends or the queue was empty for a while. It returns lease.ErrLost if the lease was
// lost.
func (t *term) run(ctx context.Context) error {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancelCause(ctx)
	t.endTerm = cancel
	running.Go(func() { t.feed.run(ctx) })
	running.Go(func() { t.sweeper.run(ctx) })
	t.runLoop(ctx)
	cancel(nil)
	close(t.end)
	running.Wait()
	if err := context.Cause(ctx); errors.Is(err, lease.ErrLost) {
		return err
	}
	return nil
}

func (t *term) runLoop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	t.lastWork = time.Now()
	for ctx.Err() == nil {
		t.update()
		now := time.Now()
		t.pool.Wake(now)
		t.feed.pooled.Store(int64(t.pool.Len()))
		t.metrics.Tickets(t.pool.Len(), t.pool.InMatches())
		if at, ok := t.nextRound(); ok && !now.Before(at) {
			t.holdRound(ctx)
			continue
		}
		if t.isIdle(now) {
			return
		}
		timer.Reset(t.nextWake(now))
		select {
		case u := <-t.feed.out:
			t.applyUpdate(u)
		case ids := <-t.sweeper.out:
			t.remove(ids)
		case o := <-t.outcomes:
			t.applyOutcome(o)
		case <-timer.C:
		case <-ctx.Done():
		}
	}
}

// update handles everything that has arrived, without waiting.
func (t *term) update() {
	for {
		select {
		case u := <-t.feed.out:
			t.applyUpdate(u)
		case ids := <-t.sweeper.out:
			t.remove(ids)
		case o := <-t.outcomes:
			t.applyOutcome(o)
		default:
			return
		}
	}
}

// isIdle reports whether there was no work for idleAfter.
func (t *term) isIdle(now time.Time) bool {
	if t.pool.Len() > 0 || !t.maker.tasks.None() {
		t.lastWork = now
	}
	return now.Sub(t.lastWork) >= t.idleAfter
}

func (t *term) applyUpdate(u feedUpdate) {
	if s := u.snapshot; s != nil {
		held := make(map[string]time.Time, len(s.Held))
		for id, until := range s.Held {
			held[id] = t.clock.Local(until)
		}
		if t.pool.Len() == 0 { // else the snapshot is an audit
			for _, ticket := range s.Tickets {
				t.recordTrace(ticket)
			}
		}
		t.losses.check(t.pool.Replace(s.Tickets, held))
	}
	for _, c := range u.changes {
		switch {
		case c.Added != nil:
			t.recordTrace(c.Added)
			t.pool.Add(c.Added, time.Time{})
		case c.Released != "":
			t.pool.Unpark(c.Released)
		default:
			t.pool.Remove(c.Cancelled)
		}
	}
}

// maxTraces is how many traces a round follows from.
const maxTraces = 128

// recordTrace records the trace of a ticket for the next round.
func (t *term) recordTrace(ticket *matchmaking.Ticket) {
	if ticket.Trace != "" && len(t.traces) < maxTraces {
		t.traces = append(t.traces, ticket.Trace)
	}
}

func (t *term) remove(ids []string) {
	for _, id := range ids {
		t.pool.Remove(id)
	}
}

func (t *term) applyOutcome(o outcome) {
	now := time.Now()
	for _, ticket := range o.Assigned {
		t.pool.Finish(ticket)
	}
	for _, ticket := range o.PutBack {
		t.pool.PutBack(ticket, now, o.AvailableAt, o.Uncertain)
	}
	t.applyUnavailable(o.unavailable)
	if o.LeaseErr != nil {
		t.stop(o.LeaseErr)
	}
}

// report passes an outcome to the loop, unless the term has ended. Tasks call it.
func (t *term) report(o outcome) {
	select {
	case t.outcomes <- o:
	case <-t.end:
	}
}

// nextRound returns the time of the next round by this server's clock, if one is due.
func (t *term) nextRound() (at time.Time, ok bool) {
	if t.pool.InMatches() >= t.pauseAt {
		return at, false // until outcomes have arrived
	}
	later := t.round.Matcher.Next()
	if !later.IsZero() {
		later = t.clock.Local(later)
	}
	return t.schedule.Next(t.pool.Changed(), later)
}

// longWait is the sleep of the loop if nothing is due.
const longWait = time.Minute

// nextWake returns how long the loop can sleep.
func (t *term) nextWake(now time.Time) time.Duration {
	wait := longWait
	if at, ok := t.nextRound(); ok {
		wait = min(wait, at.Sub(now))
	}
	if t.pool.Len() == 0 {
		wait = min(wait, t.lastWork.Add(t.idleAfter).Sub(now))
	}
	if at, ok := t.pool.NextWake(); ok {
		wait = min(wait, at.Sub(now))
	}
	return wait
}

// holdRound forms matches of the pool and hands them to the maker.
func (t *term) holdRound(ctx context.Context) {
	began, timed := time.Now(), !t.pool.Changed()
	t.pool.SetChanged(false)
	following, _, end := t.follow.Begin(ctx, matchmaking.Work{Name: "round", Queue: t.round.Queue, Traces: t.traces})
	t.traces = nil
	f := t.round.Form(following, t.pool, t.clock.Now())
	end(f.Err)
	if ctx.Err() != nil {
		return
	}
	if !t.recordRound(ctx, &f) {
		t.pool.SetChanged(true)
		t.schedule.Failed(time.Now())
		return
	}
	for rest := f.Matches; len(rest) > 0; {
		n := t.maker.next(rest)
		tickets, err := t.maker.start(ctx, rest[:n])
		if err != nil {
			t.stop(err)
			return
		}
		t.applyUnavailable(tickets)
		rest = rest[n:]
	}
	t.schedule.Held(began, time.Now(), len(f.Matches) > 0, timed)
}

// recordRound counts and logs the result of a round. It returns false if the round failed.
func (t *term) recordRound(ctx context.Context, f *round.Result) bool {
	for range f.Refused {
		t.metrics.ProposalRefused()
	}
	failed := f.Err != nil && len(f.Matches) == 0
	if failed {
		t.metrics.RoundFailed()
		t.matching.Report(ctx, f.Err)
		return false
	}
	t.matching.Report(ctx, nil)
	if f.Err != nil {
		t.log.WarnContext(ctx, "some proposals of the match function were refused", "error", f.Err)
	}
	return true
}

// stop handles an error after which no more matches can be made: it ends the term if the lease was lost; otherwise the
// term's context has ended already.
func (t *term) stop(err error) {
	if errors.Is(err, lease.ErrLost) {
		t.endTerm(err)
	}
}

// applyUnavailable updates the tickets that could not be claimed or assigned.
func (t *term) applyUnavailable(tickets unavailable) {
	var lost []*matchmaking.Ticket
	for _, ticket := range tickets.NotWaiting {
		if t.pool.Certain(ticket) {
			lost = append(lost, ticket)
		}
		t.pool.Finish(ticket)
	}
	t.losses.check(lost)
	now := time.Now()
	for _, h := range tickets.Held {
		t.pool.PutBack(h.Ticket, now, h.Until, false)
	}
}
