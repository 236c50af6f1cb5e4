package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// cycle is one evaluation of the proposals of several calls. Its run owns the fields without a lock.
type cycle struct {
	*loop
	queue        matchmaking.Definition
	ctx          context.Context //nolint:containedctx // of the evaluator and the hand-outs, which run starts
	cancel       context.CancelCauseFunc
	calls        []*call
	functions    sync.WaitGroup
	proposals    chan Proposal
	evaluated    chan struct{} // closed when the evaluator has ended: it takes no more proposals
	changed      chan struct{} // buffered (capacity 1): a function or a call has ended
	returned     chan struct{} // buffered (capacity 1): no function runs now
	acceptedMore chan struct{} // buffered (capacity 1): accepted has grown

	mu       sync.Mutex
	running  int // functions
	proposed map[string]*candidate
	accepted []*candidate // to be handed out
	bytes    int          // of the proposals that are in no call's buffer
	counts   CycleCounts
	failed   error
}

// candidate is a proposal and its call.
type candidate struct {
	Proposal
	caller   *call
	bytes    int // in the server's room
	accepted bool
}

func newCycle(l *loop, queue matchmaking.Definition) *cycle {
	return &cycle{
		loop: l, queue: queue, proposals: make(chan Proposal), evaluated: make(chan struct{}),
		changed: make(chan struct{}, 1), returned: make(chan struct{}, 1), acceptedMore: make(chan struct{}, 1),
		proposed: map[string]*candidate{},
	}
}

// run runs a cycle of calls, and returns when its functions, its evaluator and its hand-outs have ended. All its calls
// have ended then, except for the matches in their buffers.
func (c *cycle) run(ctx context.Context, calls []*call) {
	began := time.Now()
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	windows := c.queue.RegistrationInterval.Std() + c.queue.ProposalCollectionInterval.Std()
	limit := time.AfterFunc(windows+c.synchronizer.options.Limits.Cycle, func() { c.fail(errLongCycle) })
	defer limit.Stop()
	c.add(calls)
	handedOut := make(chan struct{})
	var work sync.WaitGroup
	work.Go(func() {
		defer close(c.evaluated)
		c.evaluate(calls)
	})
	work.Go(func() {
		defer close(handedOut)
		c.handOutAll()
	})
	c.register()
	c.collect()
	c.functions.Wait()
	close(c.proposals)
	c.await(handedOut)
	work.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil && ctx.Err() != nil {
		c.failed = errEnded
	}
	c.synchronizer.room.release(c.bytes)
	c.synchronizer.options.Metrics.Cycle(c.name, time.Since(began), c.counts, c.failed)
	for _, caller := range c.calls {
		caller.end(cmp.Or(c.failed, caller.failed))
	}
}

// add adds calls to the cycle and starts their functions.
func (c *cycle) add(calls []*call) {
	for _, caller := range calls {
		ctx, ok := caller.begin(func() { pace.Signal(c.changed) })
		if !ok {
			continue
		}
		c.calls = append(c.calls, caller)
		c.mu.Lock()
		c.running++
		c.counts.Calls++
		c.mu.Unlock()
		c.functions.Go(func() { c.runFunction(ctx, caller) })
	}
}

// register takes calls for the registration interval.
func (c *cycle) register() {
	interval := c.queue.RegistrationInterval.Std()
	if interval <= 0 {
		return
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-c.arrived:
			c.add(c.takeCalls())
		case <-timer.C:
			return
		case <-c.evaluated:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// collect waits until all functions have ended, no call is left, or the interval for proposals is over. Then it cancels
// the functions that still run.
func (c *cycle) collect() {
	var timeout <-chan time.Time
	if interval := c.queue.ProposalCollectionInterval.Std(); interval > 0 {
		timer := time.NewTimer(interval)
		defer timer.Stop()
		timeout = timer.C
	}
	for c.functionsRun() {
		select {
		case <-c.changed:
			c.cancelIfAllEnded()
		case <-timeout:
			for _, caller := range c.calls {
				caller.stop(errLongFunction)
			}
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// await waits for the end of the evaluator and the hand-outs, and cancels them if no call is left.
func (c *cycle) await(handedOut <-chan struct{}) {
	for {
		c.cancelIfAllEnded()
		select {
		case <-c.changed:
		case <-handedOut:
			return
		}
	}
}

// cancelIfAllEnded cancels the evaluator and the hand-outs if no call is left.
func (c *cycle) cancelIfAllEnded() {
	if !slices.ContainsFunc(c.calls, func(caller *call) bool { return !caller.hasEnded() }) {
		c.cancel(context.Canceled)
	}
}

func (c *cycle) functionsRun() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running > 0
}

// runFunction runs the function of a call. Its error ends the call at the end of the cycle, after the matches that the
// evaluator accepts.
func (c *cycle) runFunction(ctx context.Context, caller *call) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	began := time.Now()
	propose := func(p Proposal) error { return c.propose(ctx, caller, p) }
	err := c.synchronizer.options.Functions.Run(ctx, caller.FetchRequest, propose)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx) // the function ended because of that
	}
	c.synchronizer.options.Metrics.Function(c.name, time.Since(began), err)
	c.failing(caller.Function).Report(ctx, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	caller.failed = err
	if c.running--; c.running == 0 {
		pace.Signal(c.returned)
	}
	pace.Signal(c.changed)
}

// tracesOf returns the traces of calls that have one.
func tracesOf(calls ...*call) (traces []string) {
	for _, caller := range calls {
		if caller.Trace != "" {
			traces = append(traces, caller.Trace)
		}
	}
	return traces
}

// propose passes a proposal to the evaluator.
func (c *cycle) propose(ctx context.Context, caller *call, p Proposal) error {
	if err := c.addProposal(caller, p); err != nil {
		caller.end(err)
		return err
	}
	select {
	case c.proposals <- p:
		return nil
	case <-c.evaluated:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// The approximate memory of a proposal beside its content, and of a ticket in it.
const (
	proposalBytes = 512
	ticketBytes   = 128
)

// addProposal records a proposal, unless its ID has been proposed before, its backfill is too large, the limit of the
// cycle is reached, or the server has no room.
func (c *cycle) addProposal(caller *call, p Proposal) error {
	size := proposalBytes + len(p.Content) + ticketBytes*len(p.Tickets)
	if len(p.Tickets) > matchmaking.MaxUserMatchTickets {
		return matchmaking.InvalidTicket("tickets", "a match has %d tickets, and may have %d", len(p.Tickets),
			matchmaking.MaxUserMatchTickets)
	}
	if p.Backfill != nil {
		if len(p.Tickets) > matchmaking.MaxBackfillTickets {
			return matchmaking.InvalidBackfill("tickets", "a match adds %d tickets to a backfill, and may add %d",
				len(p.Tickets), matchmaking.MaxBackfillTickets)
		}
		content := c.synchronizer.options.Store.BackfillSize(&p.Backfill.Spec)
		if err := c.queue.CheckBackfillSize(content); err != nil {
			return err
		}
		size += content
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.proposed[p.ID]; other != nil {
		if other.caller == caller {
			return failuref(CodeUnknown, "MatchMakingFunction returned same match_id twice: \"%s\"", p.ID)
		}
		err := failuref(CodeUnknown, "multiple match functions used same match_id: \"%s\"", p.ID)
		other.caller.end(err)
		return err
	}
	if c.counts.Proposals == c.synchronizer.options.Limits.Matches {
		return errTooMany
	}
	if !c.synchronizer.room.acquire(size) {
		return errNoRoom
	}
	c.bytes += size
	c.counts.Proposals++
	c.proposed[p.ID] = &candidate{Proposal: p, caller: caller, bytes: size}
	return nil
}

// functionGrace is how long functions go on after the evaluator has failed: a call that is cancelled right after it was
// sent may never reach its function.
const functionGrace = 100 * time.Millisecond

// evaluate calls the evaluator. Its error fails the cycle.
func (c *cycle) evaluate(first []*call) {
	work := matchmaking.Work{Name: "evaluate", Queue: c.name, Traces: tracesOf(first...)}
	ctx, _, end := c.synchronizer.options.Follow.Begin(c.ctx, work)
	began := time.Now()
	evaluator, err := c.evaluatorOf(c.queue)
	if err == nil {
		err = evaluator.Evaluate(ctx, c.proposals, c.accept)
	}
	end(err)
	c.synchronizer.options.Metrics.Evaluator(c.name, time.Since(began), err)
	c.evaluatorFailing.Report(c.ctx, err)
	if err != nil && c.ctx.Err() == nil {
		pace.SleepUntil(c.ctx, functionGrace, c.returned)
		c.fail(err)
	}
}

// accept adds a match to those that are handed out.
func (c *cycle) accept(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.proposed[id]
	switch {
	case p == nil: // Open Match's text
		return failuref(CodeUnknown,
			"evaluator returned match_id \"%s\" which does not correspond to its any match in its input", id)
	case p.accepted:
		return failuref(CodeUnknown, "evaluator returned same match_id twice: \"%s\"", id)
	}
	p.accepted = true
	c.counts.Accepted++
	c.accepted = append(c.accepted, p)
	pace.Signal(c.acceptedMore)
	return nil
}

// fail ends the cycle with an error for all its calls. Only the first one counts.
func (c *cycle) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	c.cancel(err)
}

// handOutAll hands out what the evaluator accepts: the first match at once, and those that are accepted meanwhile
// together.
func (c *cycle) handOutAll() {
	for open := true; open; {
		select {
		case <-c.acceptedMore:
		case <-c.evaluated:
			open = false
		}
		c.handOut(c.takeAccepted())
	}
}

// takeAccepted returns the accepted matches whose calls haven't ended.
func (c *cycle) takeAccepted() []*candidate {
	c.mu.Lock()
	defer c.mu.Unlock()
	accepted := slices.DeleteFunc(c.accepted, func(p *candidate) bool { return p.caller.hasEnded() })
	c.accepted = nil
	return accepted
}

// handOut hands out matches and delivers them to their calls. Those whose tickets or backfills have changed are
// dropped.
func (c *cycle) handOut(accepted []*candidate) {
	if len(accepted) == 0 || c.ctx.Err() != nil {
		return
	}
	r := matchmaking.HandOutRequest{
		Queue: c.name, Token: ulid.Make().String(), Hold: c.queue.PendingTimeout.Std(),
		BackfillTTL: c.queue.BackfillTTL.Std(), MaxBackfills: c.queue.MaxBackfills,
	}
	for _, p := range accepted {
		r.Matches = append(r.Matches, handOutOf(c.name, p.Proposal))
	}
	var refused, unknown []handedOut
	var failed error
	held := map[string]bool{} // tickets of the matches that were handed out
	began := time.Now()
	for i, o := range c.synchronizer.options.Store.HandOut(c.ctx, r) {
		p, m := accepted[i], handedOut{
			token: r.Token, tickets: idsOf(r.Matches[i]), until: began.Add(o.Remaining - rounding),
		}
		if b := r.Matches[i].Backfill; b != nil {
			m.token = matchmaking.BackfillToken(b.ID, r.Token)
			if b.Create {
				m.Created = cmp.Or(o.Backfill, &matchmaking.Backfill{ID: b.ID})
			}
		}
		switch {
		case o.Err == nil:
			for _, id := range m.tickets {
				held[id] = true
			}
			m.Content, m.bytes = p.Content, p.bytes
			c.countHandedOut(p)
			refused = append(refused, p.caller.deliver(m)...)
		case errors.Is(o.Err, matchmaking.ErrTooManyBackfills):
			p.caller.end(o.Err)
		case !errors.Is(o.Err, matchmaking.ErrNotHandedOut) && !errors.Is(o.Err, matchmaking.ErrBackfillChanged):
			failed = fmt.Errorf("hand out tickets: %w", o.Err)
			unknown = append(unknown, m)
		}
	}
	for _, m := range unknown { // a match may share tickets with one that was handed out under the same token
		m.tickets = slices.DeleteFunc(m.tickets, func(id string) bool { return held[id] })
		refused = append(refused, m)
	}
	c.handOutFailing.Report(c.ctx, failed)
	if failed != nil && c.ctx.Err() == nil { // else it failed because of that
		c.fail(failed)
	}
	c.release(c.ctx, refused)
}

// countHandedOut counts a match whose content and bytes are now its call's.
func (c *cycle) countHandedOut(p *candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.HandedOut++
	c.bytes -= p.bytes
	p.Content = nil
}
