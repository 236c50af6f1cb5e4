package director

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

const (
	// assignPatience is how long a work asks for the outcome of an assignment that the storage doesn't tell.
	assignPatience = time.Minute
	// giveBackTimeout bounds the release of an allocation.
	giveBackTimeout = 10 * time.Second
)

// made is a match on its way from claim to assignment.
type made struct {
	match
	place matchmaking.Allocation
	asked bool  // the assigner was asked
	err   error // of the allocation
	// again is when its tickets can be matched again, where the allocation failed.
	again time.Time
}

// makeMatches finds matches a place to play at, and assigns them: each as soon as it can be, and those that can be at
// the same time together. It is a work.
func (t *term) makeMatches(ctx context.Context, h holding, matches []match) {
	margin := min(max(t.Definition.PendingTimeout.Std()/10, 20*time.Millisecond), time.Second)
	allocating, cancel := context.WithDeadline(ctx, h.deadline.Add(-margin))
	defer cancel()
	if t.immediate() {
		all := make([]made, len(matches))
		for i, m := range matches {
			all[i] = t.allocate(allocating, m)
		}
		t.assign(ctx, h, all)
		return
	}
	found := make(chan made, len(matches))
	for _, m := range matches {
		t.works.Go(func() { found <- t.allocateInTurn(allocating, m) })
	}
	for left := len(matches); left > 0; {
		batch := []made{<-found}
		for len(found) > 0 {
			batch = append(batch, <-found)
		}
		left -= len(batch)
		t.assign(ctx, h, batch)
	}
}

func (t *term) immediate() bool {
	a, ok := t.parts.Assigner.(matchmaking.Immediate)
	return ok && a.Immediate()
}

func (t *term) allocate(ctx context.Context, m match) made {
	place, err := t.parts.Assigner.Allocate(ctx, m.Proposal)
	return made{match: m, place: place, asked: true, err: err}
}

// allocateInTurn is allocate, of which maxAllocations run at the same time.
func (t *term) allocateInTurn(ctx context.Context, m match) made {
	select {
	case t.makers <- struct{}{}:
		defer func() { <-t.makers }()
		return t.allocate(ctx, m)
	case <-ctx.Done():
		return made{match: m, err: fmt.Errorf("wait for other allocations: %w", ctx.Err())}
	}
}

// assign assigns matches that have a place, until it is known what became of each, and gives the others up.
func (t *term) assign(ctx context.Context, h holding, batch []made) {
	var results results
	todo := make([]made, 0, len(batch))
	request := matchmaking.AssignRequest{Queue: t.Definition.Name, Token: h.token, Keep: t.Definition.AssignmentTTL.Std()}
	for _, m := range batch {
		var message matchmaking.AssignMatch
		if m.err == nil {
			message, m.err = t.Definition.Assignments(&m.Proposal, m.place)
		}
		if m.err != nil {
			results.unplaced = append(results.unplaced, m)
			continue
		}
		todo = append(todo, m)
		request.Matches = append(request.Matches, message)
	}
	t.allocationsEnded(ctx, len(todo), results.unplaced)
	wait := pace.NewBackoff()
	for began := time.Now(); len(todo) > 0; {
		outcomes := t.Store.Assign(context.WithoutCancel(ctx), request)
		todo, request.Matches = t.sortOut(ctx, &results, answered{todo, request.Matches, outcomes})
		if len(todo) > 0 && (time.Since(began) > assignPatience || !pace.Sleep(ctx, wait.NextBackOff())) {
			results.unknown = todo
			break
		}
	}
	t.conclude(ctx, h, results)
}

// allocationsEnded tells how allocations ended.
func (t *term) allocationsEnded(ctx context.Context, placed int, unplaced []made) {
	if placed > 0 {
		t.unplaced.reset()
		t.allocating.Report(ctx, nil)
	}
	for i := range unplaced {
		unplaced[i].again = time.Now().Add(t.unplaced.next())
		t.metrics.AllocationFailed()
		t.allocating.Report(ctx, unplaced[i].err)
	}
}

// allocationBackoff is how long the tickets of matches wait whose allocations failed in succession. It may be used by many
// goroutines.
type allocationBackoff struct {
	mu   sync.Mutex
	wait *backoff.ExponentialBackOff
}

// next returns the wait after one more failure.
func (b *allocationBackoff) next() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wait.NextBackOff()
}

func (b *allocationBackoff) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wait.Reset()
}

// results are what became of the matches of a batch.
type results struct {
	assigned  []string // tickets
	unplaced  []made   // their allocation failed
	conflicts []failed
	refused   []made // the storage refused them for good
	unknown   []made // the storage didn't tell
}

// failed is a match that couldn't be assigned, and the tickets because of which.
type failed struct {
	made
	conflicts []matchmaking.Conflict
}

// answered is what Assign was asked, and what it answered.
type answered struct {
	matches  []made
	messages []matchmaking.AssignMatch
	outcomes []matchmaking.AssignOutcome
}

var errOutcomes = errors.New("the storage gave another number of outcomes than of matches")

// sortOut takes the outcomes that are known, and gives the matches whose outcome isn't.
func (t *term) sortOut(ctx context.Context, r *results, a answered) (todo []made, again []matchmaking.AssignMatch) {
	var storageErr error
	var entries []matchmaking.OutboxEntry
	for i, m := range a.matches {
		outcome := matchmaking.AssignOutcome{Err: errOutcomes}
		if len(a.outcomes) == len(a.matches) {
			outcome = a.outcomes[i]
		}
		switch {
		case errors.Is(outcome.Err, matchmaking.ErrNotAssigned):
			m.err = outcome.Err
			r.refused = append(r.refused, m)
		case outcome.Err != nil:
			storageErr = outcome.Err
			todo, again = append(todo, m), append(again, a.messages[i])
		case len(outcome.Conflicts) > 0:
			r.conflicts = append(r.conflicts, failed{made: m, conflicts: outcome.Conflicts})
		default:
			r.assigned = append(r.assigned, m.ids...)
			t.metrics.Matched(outcome.Waits)
			for j, entry := range outcome.Entries {
				ticket := a.messages[i].Assignments[j]
				entries = append(entries, matchmaking.OutboxEntry{
					Entry: entry, TicketID: ticket.ID, MatchID: m.ID, Epoch: ticket.Epoch, Content: ticket.Content,
				})
			}
		}
	}
	t.outbox.Offer(entries)
	t.storing.Report(ctx, storageErr)
	return todo, again
}

// conclude ends a batch: it gives up what came to nothing, and tells the loop.
func (t *term) conclude(ctx context.Context, h holding, r results) {
	now := settlement{over: r.assigned}
	var later, doubtful settlement
	for _, f := range r.conflicts {
		t.conflicted(ctx, f)
		gone, left := f.split()
		now.over = append(now.over, gone...)
		now.again = append(now.again, left...)
	}
	for _, m := range r.unplaced {
		later.again, later.at = append(later.again, m.ids...), m.again
		if m.asked {
			t.giveBack(ctx, m)
		}
	}
	for _, m := range r.refused {
		later.again, later.at = append(later.again, m.ids...), time.Now().Add(pace.LastBackoff)
		t.metrics.ProposalRefused()
		t.log.ErrorContext(ctx, "a match could not be assigned", "match", m.ID, "tickets", len(m.ids), "error", m.err)
		t.giveBack(ctx, m)
	}
	for _, m := range r.unknown {
		// Players may have been told of the place, so it isn't given back. Their tickets can be claimed if they weren't.
		doubtful.again, doubtful.at, doubtful.doubt = append(doubtful.again, m.ids...), h.deadline, true
		t.log.ErrorContext(ctx, "it isn't known whether a match was assigned", "match", m.ID, "tickets", m.ids, "connection", m.place.Connection)
	}
	if up := slices.Concat(now.again, later.again, doubtful.again); len(up) > 0 {
		t.release(ctx, h, up)
	}
	t.settle(now)
	for _, s := range []settlement{later, doubtful} {
		if len(s.again) > 0 {
			t.settle(s)
		}
	}
}

// split gives the tickets that can't be assigned any more, and the others.
func (f *failed) split() (gone, left []string) {
	for _, c := range f.conflicts {
		if c.Reason == matchmaking.ConflictGone {
			gone = append(gone, c.ID)
		}
	}
	for _, id := range f.ids {
		if !slices.Contains(gone, id) {
			left = append(left, id)
		}
	}
	return gone, left
}

// conflicted tells of a match that couldn't be assigned, and gives its place back.
func (t *term) conflicted(ctx context.Context, f failed) {
	t.metrics.Conflict(f.conflicts[0].Reason)
	t.log.DebugContext(ctx, "a match couldn't be assigned", "match", f.ID, "ticket", f.conflicts[0].ID, "reason", f.conflicts[0].Reason)
	t.giveBack(ctx, f.made)
}

// giveBack gives the place of a match back that came to nothing, as a work of its own.
func (t *term) giveBack(ctx context.Context, m made) {
	t.works.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		defer cancel()
		if err := t.parts.Assigner.Release(ctx, m.ID, m.place); err != nil {
			t.log.ErrorContext(ctx, "a place to play at couldn't be given back", "match", m.ID, "connection", m.place.Connection, "error", err)
		}
	})
}
