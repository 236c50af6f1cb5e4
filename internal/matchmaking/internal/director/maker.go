package director

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
)

// maker turns the matches of rounds into assignments, for one term:
//
//	claim ──► allocate ──► assign ──► outbox
//	  │           │           │
//	  └───────────┴───────────┴──► give back: the place, the claim, and the tickets to the pool
//
// start claims. All that follows runs in tasks, which may outlive the term: the storage decides whether a match is
// assigned. While the storage fails they try again; they report the outcome for each ticket to the term.
//
// With an assigner that is immediate nothing is claimed: the tickets need not be held while nothing is waited for. All
// matches of a round are assigned by one call, which the storage carries out only for the holder of the queue's lease.
//
// The fields are set before start is called and not changed any more. One goroutine calls start.
type maker struct {
	store      Store
	assigner   matchmaking.Assigner
	outbox     Outbox
	definition *matchmaking.Definition
	follow     matchmaking.Follow
	clock      *clock
	tasks      *tasks
	health     *health
	metrics    Metrics
	log        *slog.Logger
	fence      uint64        // of the term's lease
	report     func(outcome) // called by tasks

	tokens int // used so far: the last part of a token
}

// health is the state that the makers of a queue share across terms: failures of the storage and of allocations. It may
// be used by many goroutines.
type health struct {
	allocations         allocations
	storing, allocating *outage.Outage
}

// newHealth returns a health without failures.
func newHealth(log *slog.Logger) *health {
	return &health{
		allocations: allocations{slots: make(chan struct{}, maxAllocations), wait: pace.NewBackoff()},
		storing:     outage.New(log, "storage failing, no matches made"),
		allocating:  outage.New(log, "allocation failing"),
	}
}

// outcome is the result for some tickets of matches.
type outcome struct {
	unavailable
	Assigned    []*matchmaking.Ticket
	PutBack     []*matchmaking.Ticket // available again
	AvailableAt time.Time             // when those are available; zero: now
	Uncertain   bool                  // those may be assigned
	LeaseErr    error                 // lease.ErrLost: the term has lost its lease
}

// grant is a claim on tickets or, with an immediate assigner, the lease under which tickets are assigned
// without one.
type grant struct {
	token    string
	fence    uint64    // of the lease that assigns without a claim; 0: the token holds the tickets
	deadline time.Time // by this server's clock, a little early; zero: nothing is held
}

// unavailable holds the tickets that could not be claimed or assigned.
type unavailable struct {
	NotWaiting []*matchmaking.Ticket // assigned, cancelled, expired, or never there
	Held       []heldTicket          // by another claim
}

// heldTicket is a ticket that another claim holds.
type heldTicket struct {
	Ticket *matchmaking.Ticket
	Until  time.Time // by this server's clock
}

const (
	// claimTickets is how many tickets one claim holds at most. The matches of a round that have more need several.
	claimTickets = 500
	// heldMargin is how much later than another claim's deadline its tickets are tried.
	heldMargin = 2 * time.Millisecond
)

// next returns how many of the matches, but at least one, are started together: as many as fit into one claim, or all
// of them if nothing is claimed.
func (m *maker) next(matches []matchmaking.Proposal) int {
	if isImmediate(m.assigner) {
		return len(matches)
	}
	tickets := 0
	for n, m := range matches {
		if tickets += len(m.Tickets()); tickets > claimTickets {
			return max(n, 1)
		}
	}
	return len(matches)
}

// start begins to make matches. If their tickets must be claimed it waits for that, releases the tickets of incomplete
// matches, and returns the tickets that it didn't get. An error means that the term must end: lease.ErrLost, or that
// ctx has ended.
func (m *maker) start(ctx context.Context, matches []matchmaking.Proposal) (unavailable, error) {
	m.tokens++
	g := grant{token: strconv.FormatUint(m.fence, 10) + "." + strconv.Itoa(m.tokens)}
	if isImmediate(m.assigner) {
		g.fence = m.fence
		m.tasks.Start(func(ctx context.Context) { m.makeAtOnce(ctx, g, matches) })
		return unavailable{}, nil
	}
	return m.startClaimed(ctx, g, matches)
}

func (m *maker) startClaimed(ctx context.Context, g grant, matches []matchmaking.Proposal) (unavailable, error) {
	var all []*matchmaking.Ticket
	for i := range matches {
		all = append(all, matches[i].Tickets()...)
	}
	got, sent, err := m.claim(ctx, g.token, idsOf(all))
	if err != nil {
		return unavailable{}, err
	}
	m.clock.Observe(sent, got.Now)
	g.deadline = sent.Add(got.Deadline.Sub(got.Now))

	complete, rest := splitClaimed(matches, got.IDs)
	if len(complete) > 0 {
		m.tasks.Start(func(ctx context.Context) { m.makeEach(ctx, g, complete) })
	}
	if len(rest) > 0 {
		m.tasks.Start(func(ctx context.Context) {
			m.release(ctx, g, idsOf(rest))
			m.report(outcome{PutBack: rest})
		})
	}
	return m.unavailable(all, &got), nil
}

// unavailable returns the tickets that a claim did not get.
func (m *maker) unavailable(all []*matchmaking.Ticket, got *matchmaking.Claimed) (u unavailable) {
	notWaiting := make(map[string]bool, len(got.NotWaiting))
	for _, id := range got.NotWaiting {
		notWaiting[id] = true
	}
	for _, t := range all {
		if until, held := got.Held[t.ID]; held {
			u.Held = append(u.Held, heldTicket{Ticket: t, Until: m.clock.Local(until).Add(heldMargin)})
		} else if notWaiting[t.ID] {
			u.NotWaiting = append(u.NotWaiting, t)
		}
	}
	return u
}

func idsOf(tickets []*matchmaking.Ticket) []string {
	ids := make([]string, len(tickets))
	for i, t := range tickets {
		ids[i] = t.ID
	}
	return ids
}

// splitClaimed returns the matches whose tickets a claim got, and the tickets that it got of incomplete matches.
func splitClaimed(matches []matchmaking.Proposal, claimed []string) (complete []matchmaking.Proposal,
	rest []*matchmaking.Ticket) {
	has := make(map[string]bool, len(claimed))
	for _, id := range claimed {
		has[id] = true
	}
	for _, m := range matches {
		tickets := m.Tickets()
		part := slices.DeleteFunc(tickets, func(t *matchmaking.Ticket) bool { return !has[t.ID] })
		if len(part) == len(tickets) {
			complete = append(complete, m)
		} else {
			rest = append(rest, part...)
		}
	}
	return complete, rest
}

// claim claims tickets. While the storage fails it tries again with the same token, since the tickets may be held by
// it. After an error the tickets are released in the background if they may be held.
func (m *maker) claim(ctx context.Context, token string, ids []string) (got matchmaking.Claimed, sent time.Time,
	err error) {
	wait := pace.NewBackoff()
	hold := m.definition.PendingTimeout.Std()
	request := matchmaking.ClaimRequest{Queue: m.definition.Name, Token: token, Fence: m.fence, Hold: hold, IDs: ids}
	mayHold := false // a try may have held the tickets
	for {
		sent = time.Now()
		got, err = m.store.Claim(ctx, request)
		if err == nil || errors.Is(err, lease.ErrLost) {
			m.health.storing.Report(ctx, nil) // the storage has answered
			break
		}
		mayHold = true
		m.health.storing.Report(ctx, err)
		if !pace.Sleep(ctx, wait.NextBackOff()) {
			break
		}
	}
	if err == nil {
		return got, sent, nil
	}
	if mayHold {
		g := grant{token: token, deadline: time.Now().Add(hold)}
		m.tasks.Start(func(ctx context.Context) { m.release(ctx, g, ids) })
	}
	return got, sent, fmt.Errorf("claim: %w", err)
}

// release releases tickets that a claim may hold. While the storage fails it tries again until the claim's deadline,
// after which they are free. Once tasks are given up it tries once.
func (m *maker) release(ctx context.Context, g grant, ids []string) {
	releasing, cancel := context.WithDeadline(context.WithoutCancel(ctx), g.deadline)
	defer cancel()
	wait := pace.NewBackoff()
	for releasing.Err() == nil {
		err := m.store.Release(releasing, m.definition.Name, g.token, ids)
		if err == nil || !pace.Sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// makeAtOnce allocates places for matches without waiting, and assigns all of them together.
func (m *maker) makeAtOnce(ctx context.Context, g grant, matches []matchmaking.Proposal) {
	allocating, cancel := context.WithTimeout(ctx, m.definition.PendingTimeout.Std())
	defer cancel()
	all := make([]placed, len(matches))
	for i, match := range matches {
		all[i] = m.allocate(allocating, match)
	}
	m.assign(ctx, g, all)
}

// makeEach allocates places for matches and assigns them: each as soon as it has a place, and those that have one at
// the same time together.
func (m *maker) makeEach(ctx context.Context, g grant, matches []matchmaking.Proposal) {
	margin := min(max(m.definition.PendingTimeout.Std()/10, 20*time.Millisecond), time.Second)
	allocating, cancel := context.WithDeadline(ctx, g.deadline.Add(-margin))
	defer cancel()
	found := make(chan placed, len(matches))
	for _, match := range matches {
		m.tasks.Start(func(context.Context) { found <- m.allocateInTurn(allocating, match) })
	}
	for remaining := len(matches); remaining > 0; {
		batch := []placed{<-found}
		for len(found) > 0 {
			batch = append(batch, <-found)
		}
		remaining -= len(batch)
		m.assign(ctx, g, batch)
	}
}

// isImmediate reports whether an assigner never waits for anything.
func isImmediate(a matchmaking.Assigner) bool {
	immediate, ok := a.(matchmaking.Immediate)
	return ok && immediate.Immediate()
}

const (
	// maxAllocations is how many allocations of a queue run at the same time.
	maxAllocations = 64
	// giveBackTimeout bounds the release of an allocation.
	giveBackTimeout = 10 * time.Second
)

// allocations limits the allocations that run at the same time, and makes tickets wait longer the more of them fail in
// succession.
type allocations struct {
	slots chan struct{} // one for each that runs

	mu   sync.Mutex
	wait *backoff.ExponentialBackOff
}

// failed returns how long the tickets of a match whose allocation failed wait.
func (a *allocations) failed() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.wait.NextBackOff()
}

func (a *allocations) succeeded() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wait.Reset()
}

// placed is a match and the result of its allocation.
type placed struct {
	matchmaking.Proposal
	place       matchmaking.Allocation
	requested   bool                    // the assigner got the request
	assignments matchmaking.AssignMatch // of the match at its place; set by assign
	err         error                   // there is no place, or the match was not assigned
	availableAt time.Time               // when the tickets are available again if there is no place
	trace       string                  // of making the match; empty: it isn't traced
	endTrace    func(error)             // ends that; nil: it hasn't begun
}

// finishTrace ends the trace of a match, which was assigned if there is no error.
func (p *placed) finishTrace(err error) {
	if p.endTrace != nil {
		p.endTrace(err)
	}
}

func (m *maker) allocate(ctx context.Context, match matchmaking.Proposal) placed {
	var traces []string
	if m.follow != nil {
		traces = matchmaking.TracesOf(match.Tickets())
	}
	ctx, trace, end := m.follow.Begin(ctx, matchmaking.Work{Name: "match", Queue: m.definition.Name, MatchID: match.ID,
		Traces: traces})
	place, err := m.assigner.Allocate(ctx, match)
	return placed{Proposal: match, place: place, requested: true, err: err, trace: trace, endTrace: end}
}

// allocateInTurn is allocate, but waits until fewer than maxAllocations run.
func (m *maker) allocateInTurn(ctx context.Context, match matchmaking.Proposal) placed {
	slots := m.health.allocations.slots
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
		return m.allocate(ctx, match)
	case <-ctx.Done():
		return placed{Proposal: match, err: fmt.Errorf("wait for other allocations: %w", ctx.Err())}
	}
}

// countAllocations records the results of allocations.
func (m *maker) countAllocations(ctx context.Context, succeeded int, failed []placed) {
	if succeeded > 0 {
		m.health.allocations.succeeded()
		m.health.allocating.Report(ctx, nil)
	}
	for i := range failed {
		failed[i].availableAt = time.Now().Add(m.health.allocations.failed())
		m.metrics.AllocationFailed()
		m.health.allocating.Report(ctx, failed[i].err)
	}
}

// giveBack releases the place of a match that was not assigned, in the background.
func (m *maker) giveBack(p *placed) {
	m.tasks.Start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		defer cancel()
		if err := m.assigner.Release(ctx, p.ID, p.place); err != nil {
			m.log.ErrorContext(ctx, "cannot release the place of a match", "match", p.ID, "connection",
				p.place.Connection, "error", err)
		}
	})
}

// assignPatience is how long an assignment whose outcome is not known is repeated: while the storage knows of it, which
// it does for a minute or longer.
const assignPatience = 45 * time.Second

// results are the results of the matches of a batch.
type results struct {
	assigned  []*matchmaking.Ticket
	unplaced  []placed     // no place was found
	conflicts []conflicted // a ticket could not be assigned
	lost      []placed     // the lease was lost before they were assigned
	refused   []placed     // the storage will never accept them
	unknown   []placed     // the storage did not answer
}

// conflicted is a match that could not be assigned, and the tickets that prevented it.
type conflicted struct {
	placed
	conflicts []matchmaking.Conflict
}

// assign assigns the matches that have a place, and repeats that until the outcome of each is known or assignPatience
// is over. Then it gives back what was not assigned. It reuses batch.
func (m *maker) assign(ctx context.Context, g grant, batch []placed) {
	var r results
	pending := batch[:0]
	request := matchmaking.AssignRequest{Queue: m.definition.Name, Token: g.token, Fence: g.fence,
		Keep: m.definition.AssignmentTTL.Std()}
	for _, p := range batch {
		if p.err != nil {
			p.finishTrace(p.err)
			r.unplaced = append(r.unplaced, p)
			continue
		}
		if p.assignments, p.err = m.definition.Assignments(&p.Proposal, p.place); p.err != nil {
			p.finishTrace(p.err)
			r.refused = append(r.refused, p)
			continue
		}
		pending = append(pending, p)
	}
	m.countAllocations(ctx, len(pending), r.unplaced)
	wait := pace.NewBackoff()
	for began := time.Now(); len(pending) > 0; {
		request.Matches = make([]matchmaking.AssignMatch, len(pending))
		for i := range pending {
			request.Matches[i] = pending[i].assignments
		}
		pending = m.sortOutcomes(ctx, &r, pending, m.callAssign(ctx, request, pending))
		if len(pending) > 0 && (time.Since(began) > assignPatience || !pace.Sleep(ctx, wait.NextBackOff())) {
			r.unknown = pending
			for i := range pending {
				pending[i].finishTrace(errUnknown)
			}
			break
		}
	}
	m.conclude(ctx, g, r)
}

// callAssign calls the storage to assign matches.
func (m *maker) callAssign(ctx context.Context, r matchmaking.AssignRequest, matches []placed,
) []matchmaking.AssignOutcome {
	var traces []string
	for i := range matches {
		if trace := matches[i].trace; trace != "" {
			traces = append(traces, trace)
		}
	}
	ctx, _, end := m.follow.Begin(context.WithoutCancel(ctx), matchmaking.Work{Name: "assign", Queue: r.Queue,
		Traces: traces})
	defer end(nil)
	return m.store.Assign(ctx, r)
}

// errConflict is the error of a match of which a ticket could not be assigned.
var errConflict = errors.New("a ticket could not be assigned")

// errUnknown is the error of a match of which it isn't known whether it was assigned.
var errUnknown = errors.New("it isn't known whether the match was assigned")

var errOutcomes = errors.New("the storage returned another number of outcomes than of matches")

// sortOutcomes adds the outcomes that are known to results, offers new assignments to the outbox, and returns the
// matches whose outcome is not known.
func (m *maker) sortOutcomes(ctx context.Context, r *results, matches []placed, outcomes []matchmaking.AssignOutcome) (
	unknown []placed) {
	var storageErr error
	tickets := 0
	for i := range matches {
		tickets += len(matches[i].assignments.Assignments)
	}
	entries := make([]matchmaking.OutboxEntry, 0, tickets)
	for i, p := range matches {
		o := matchmaking.AssignOutcome{Err: errOutcomes}
		if len(outcomes) == len(matches) {
			o = outcomes[i]
		}
		switch {
		case errors.Is(o.Err, matchmaking.ErrNotAssigned):
			p.err = o.Err
			p.finishTrace(p.err)
			r.refused = append(r.refused, p)
		case errors.Is(o.Err, lease.ErrLost):
			p.err = o.Err
			p.finishTrace(p.err)
			r.lost = append(r.lost, p)
		case o.Err != nil:
			storageErr = o.Err
			unknown = append(unknown, p)
		case len(o.Conflicts) > 0:
			p.finishTrace(errConflict)
			r.conflicts = append(r.conflicts, conflicted{placed: p, conflicts: o.Conflicts})
		default:
			r.assigned = append(r.assigned, p.Tickets()...)
			p.finishTrace(nil)
			m.metrics.Matched(o.Waits)
			entries = p.assignments.AppendOutgoing(entries, o.Entries, p.trace)
		}
	}
	m.outbox.Offer(entries)
	m.health.storing.Report(ctx, storageErr)
	return unknown
}

// conclude ends a batch: it gives back what was not assigned, and reports the tickets to the term.
func (m *maker) conclude(ctx context.Context, g grant, r results) {
	outcomes := []outcome{
		m.dropConflicts(ctx, r.assigned, r.conflicts), m.dropUnplaced(r.unplaced), m.dropRefused(ctx, r.refused),
		m.dropLost(r.lost),
		m.dropUnknown(ctx, g, r.unknown),
	}
	if g.fence == 0 {
		var ids []string
		for _, o := range outcomes {
			ids = append(ids, idsOf(o.PutBack)...)
			for _, h := range o.Held {
				ids = append(ids, h.Ticket.ID)
			}
		}
		if len(ids) > 0 {
			m.release(ctx, g, ids)
		}
	}
	for _, o := range outcomes {
		if len(o.Assigned)+len(o.PutBack)+len(o.NotWaiting)+len(o.Held) > 0 {
			m.report(o)
		}
	}
}

// dropConflicts returns the outcome of tickets that were assigned and of matches that could not be.
func (m *maker) dropConflicts(ctx context.Context, assigned []*matchmaking.Ticket, matches []conflicted) outcome {
	o := outcome{Assigned: assigned}
	for i := range matches {
		p := &matches[i]
		m.metrics.Conflict(p.conflicts[0].Reason)
		m.log.DebugContext(ctx, "cannot assign a match", "match", p.ID, "ticket", p.conflicts[0].ID, "reason",
			p.conflicts[0].Reason)
		m.giveBack(&p.placed)
		m.addConflicted(p, &o)
	}
	return o
}

// addConflicted adds the tickets of a match that could not be assigned to an outcome: those that prevented it, and the
// others, which are available again.
func (m *maker) addConflicted(f *conflicted, o *outcome) {
	conflicts := make(map[string]matchmaking.Conflict, len(f.conflicts))
	for _, c := range f.conflicts {
		conflicts[c.ID] = c
	}
	for _, t := range f.Tickets() {
		switch c := conflicts[t.ID]; {
		case c.Reason == matchmaking.ConflictNotWaiting:
			o.NotWaiting = append(o.NotWaiting, t)
		case !c.Until.IsZero():
			o.Held = append(o.Held, heldTicket{Ticket: t, Until: m.clock.Local(c.Until).Add(heldMargin)})
		default:
			o.PutBack = append(o.PutBack, t)
		}
	}
}

// dropLost returns the outcome of matches that were not assigned because the lease was lost.
func (m *maker) dropLost(matches []placed) (o outcome) {
	for i := range matches {
		p := &matches[i]
		o.PutBack, o.LeaseErr = append(o.PutBack, p.Tickets()...), p.err
		m.giveBack(p)
	}
	return o
}

// dropUnknown returns the outcome of matches of which it isn't known whether they were assigned. Players may know the
// place, so it is not given back. Their tickets can be matched again if they do not.
func (m *maker) dropUnknown(ctx context.Context, g grant, matches []placed) (o outcome) {
	for i := range matches {
		p := &matches[i]
		o.PutBack, o.AvailableAt, o.Uncertain = append(o.PutBack, p.Tickets()...), g.deadline, true
		m.log.ErrorContext(ctx, "it is not known whether a match was assigned", "match", p.ID, "tickets",
			idsOf(p.Tickets()), "connection", p.place.Connection)
	}
	return o
}

// dropUnplaced returns the outcome of matches without a place.
func (m *maker) dropUnplaced(matches []placed) (o outcome) {
	for i := range matches {
		p := &matches[i]
		o.PutBack, o.AvailableAt = append(o.PutBack, p.Tickets()...), p.availableAt
		if p.requested {
			m.giveBack(p)
		}
	}
	return o
}

// dropRefused returns the outcome of matches that can't be stored: the storage refuses them, or they are too large.
func (m *maker) dropRefused(ctx context.Context, matches []placed) (o outcome) {
	for i := range matches {
		p := &matches[i]
		o.PutBack, o.AvailableAt = append(o.PutBack, p.Tickets()...), time.Now().Add(pace.LastBackoff)
		m.metrics.ProposalRefused()
		m.log.ErrorContext(ctx, "a match can't be stored", "match", p.ID, "tickets", len(p.Tickets()), "error", p.err)
		m.giveBack(p)
	}
	return o
}
