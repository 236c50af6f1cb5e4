package director

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/director/round"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
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
	clock      *clock
	tasks      *tasks
	health     *health
	metrics    Metrics
	log        *slog.Logger
	fence      uint64        // of the term's lease
	report     func(outcome) // called by tasks

	tokens int // used so far: the last part of a token
}

// health is what the makers of a queue share from one term to the next. It may be used by many goroutines.
type health struct {
	allocations         allocations
	storing, allocating *outage.Outage
}

// newHealth returns the health of makers without failures.
func newHealth(log *slog.Logger) *health {
	return &health{
		allocations: allocations{slots: make(chan struct{}, maxAllocations), wait: pace.NewBackoff()},
		storing:     outage.New(log, "storage failing, no matches made"),
		allocating:  outage.New(log, "allocation failing"),
	}
}

// outcome is what became of tickets of matches.
type outcome struct {
	missed
	Assigned  []*matchmaking.Ticket
	PutBack   []*matchmaking.Ticket // available again
	From      time.Time             // when those are available; zero: now
	Uncertain bool                  // those may be assigned
	Lost      error                 // lease.ErrLost: the term has lost its lease
}

// claim is a claim granted by the storage or, with an immediate assigner, the lease under which tickets are assigned
// without one.
type claim struct {
	token    string
	fence    uint64    // of the lease that assigns without a claim; 0: the token holds the tickets
	deadline time.Time // by this server's clock, a little early; zero: nothing is held
}

// missed holds the tickets that could not be claimed or assigned.
type missed struct {
	Gone []*matchmaking.Ticket // assigned, cancelled, expired, or never there
	Held []heldTicket          // by another claim
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
func (m *maker) next(matches []round.Match) int {
	if isImmediate(m.assigner) {
		return len(matches)
	}
	tickets := 0
	for n, m := range matches {
		if tickets += len(m.Members); tickets > claimTickets {
			return max(n, 1)
		}
	}
	return len(matches)
}

// start begins to make matches. If their tickets must be claimed it waits until they are, gives up again those of
// matches that are incomplete, and returns what it missed. An error means that the term must end: lease.ErrLost, or
// that ctx has ended.
func (m *maker) start(ctx context.Context, matches []round.Match) (missed, error) {
	m.tokens++
	c := claim{token: strconv.FormatUint(m.fence, 10) + "." + strconv.Itoa(m.tokens)}
	if isImmediate(m.assigner) {
		c.fence = m.fence
		m.tasks.Start(func(ctx context.Context) { m.makeAtOnce(ctx, c, matches) })
		return missed{}, nil
	}
	return m.startClaimed(ctx, c, matches)
}

func (m *maker) startClaimed(ctx context.Context, c claim, matches []round.Match) (missed, error) {
	var all []*matchmaking.Ticket
	for i := range matches {
		all = append(all, matches[i].Members...)
	}
	got, sent, err := m.claim(ctx, c.token, idsOf(all))
	if err != nil {
		return missed{}, err
	}
	m.clock.Observe(sent, got.Now)
	c.deadline = sent.Add(got.Deadline.Sub(got.Now))

	complete, rest := split(matches, got.IDs)
	if len(complete) > 0 {
		m.tasks.Start(func(ctx context.Context) { m.make(ctx, c, complete) })
	}
	if len(rest) > 0 {
		m.tasks.Start(func(ctx context.Context) {
			m.release(ctx, c, idsOf(rest))
			m.report(outcome{PutBack: rest})
		})
	}
	return m.missed(all, &got), nil
}

// missed returns those of the tickets that a claim did not get.
func (m *maker) missed(all []*matchmaking.Ticket, got *matchmaking.Claimed) (not missed) {
	gone := make(map[string]bool, len(got.Gone))
	for _, id := range got.Gone {
		gone[id] = true
	}
	for _, t := range all {
		if until, held := got.Held[t.ID]; held {
			not.Held = append(not.Held, heldTicket{Ticket: t, Until: m.clock.Local(until).Add(heldMargin)})
		} else if gone[t.ID] {
			not.Gone = append(not.Gone, t)
		}
	}
	return not
}

func idsOf(tickets []*matchmaking.Ticket) []string {
	ids := make([]string, len(tickets))
	for i, t := range tickets {
		ids[i] = t.ID
	}
	return ids
}

// split returns the matches of which a claim got all tickets, and the tickets that it got of the others.
func split(matches []round.Match, got []string) (complete []round.Match, rest []*matchmaking.Ticket) {
	has := make(map[string]bool, len(got))
	for _, id := range got {
		has[id] = true
	}
	for _, m := range matches {
		var part []*matchmaking.Ticket
		for _, t := range m.Members {
			if has[t.ID] {
				part = append(part, t)
			}
		}
		if len(part) == len(m.Members) {
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
	unsure := false // a try may have held the tickets
	for {
		sent = time.Now()
		got, err = m.store.Claim(ctx, request)
		if err == nil || errors.Is(err, lease.ErrLost) {
			m.health.storing.Report(ctx, nil) // the storage has answered
			break
		}
		unsure = true
		m.health.storing.Report(ctx, err)
		if !pace.Sleep(ctx, wait.NextBackOff()) {
			break
		}
	}
	if err == nil {
		return got, sent, nil
	}
	if unsure {
		c := claim{token: token, deadline: time.Now().Add(hold)}
		m.tasks.Start(func(ctx context.Context) { m.release(ctx, c, ids) })
	}
	return got, sent, fmt.Errorf("claim: %w", err)
}

// release gives up tickets that a claim may hold. While the storage fails it tries again until the claim's deadline,
// after which they are free. Once tasks are given up it tries once.
func (m *maker) release(ctx context.Context, c claim, ids []string) {
	releasing, cancel := context.WithDeadline(context.WithoutCancel(ctx), c.deadline)
	defer cancel()
	wait := pace.NewBackoff()
	for releasing.Err() == nil {
		err := m.store.Release(releasing, m.definition.Name, c.token, ids)
		if err == nil || !pace.Sleep(ctx, wait.NextBackOff()) {
			return
		}
	}
}

// makeAtOnce allocates places for matches without waiting, and assigns all of them together.
func (m *maker) makeAtOnce(ctx context.Context, c claim, matches []round.Match) {
	allocating, cancel := context.WithTimeout(ctx, m.definition.PendingTimeout.Std())
	defer cancel()
	all := make([]placed, len(matches))
	for i, match := range matches {
		all[i] = m.allocate(allocating, match)
	}
	m.assign(ctx, c, all)
}

// make allocates places for matches and assigns them: each as soon as it has a place, and those that have one at the
// same time together.
func (m *maker) make(ctx context.Context, c claim, matches []round.Match) {
	margin := min(max(m.definition.PendingTimeout.Std()/10, 20*time.Millisecond), time.Second)
	allocating, cancel := context.WithDeadline(ctx, c.deadline.Add(-margin))
	defer cancel()
	found := make(chan placed, len(matches))
	for _, match := range matches {
		m.tasks.Start(func(context.Context) { found <- m.allocateInTurn(allocating, match) })
	}
	for left := len(matches); left > 0; {
		batch := []placed{<-found}
		for len(found) > 0 {
			batch = append(batch, <-found)
		}
		left -= len(batch)
		m.assign(ctx, c, batch)
	}
}

// isImmediate reports whether an assigner never waits for anything.
func isImmediate(a matchmaking.Assigner) bool {
	immediate, ok := a.(matchmaking.Immediate)
	return ok && immediate.Immediate()
}
