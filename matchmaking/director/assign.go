package director

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// assignPatience is how long an assignment whose outcome is not known is repeated: while the storage knows of it, which
// it does for a minute or longer.
const assignPatience = 45 * time.Second

// results are what became of the matches of a batch.
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

// assign assigns the matches that have a place, until it is known what became of each, and gives up the others.
func (m *maker) assign(ctx context.Context, c claim, batch []placed) {
	var r results
	todo := make([]placed, 0, len(batch))
	request := matchmaking.AssignRequest{Queue: m.definition.Name, Token: c.token, Fence: c.fence,
		Keep: m.definition.AssignmentTTL.Std()}
	for _, p := range batch {
		var assignments matchmaking.AssignMatch
		if p.err == nil {
			assignments, p.err = m.definition.Assignments(&p.Proposal, p.place)
		}
		if p.err != nil {
			r.unplaced = append(r.unplaced, p)
			continue
		}
		todo = append(todo, p)
		request.Matches = append(request.Matches, assignments)
	}
	m.countAllocations(ctx, len(todo), r.unplaced)
	wait := pace.NewBackoff()
	for began := time.Now(); len(todo) > 0; {
		outcomes := m.store.Assign(context.WithoutCancel(ctx), request)
		todo, request.Matches = m.sort(ctx, &r, answered{todo, request.Matches, outcomes})
		if len(todo) > 0 && (time.Since(began) > assignPatience || !pace.Sleep(ctx, wait.NextBackOff())) {
			r.unknown = todo
			break
		}
	}
	m.conclude(ctx, c, r)
}

// answered is what Assign was asked, and what it answered.
type answered struct {
	matches     []placed
	assignments []matchmaking.AssignMatch
	outcomes    []matchmaking.AssignOutcome
}

var errOutcomes = errors.New("the storage returned another number of outcomes than of matches")

// sort adds the outcomes that are known to results, offers new assignments to the outbox, and returns the matches whose
// outcome is not known.
func (m *maker) sort(ctx context.Context, r *results, a answered) (todo []placed, again []matchmaking.AssignMatch) {
	var storageErr error
	tickets := 0
	for i := range a.matches {
		tickets += len(a.matches[i].Members)
	}
	entries := make([]matchmaking.OutboxEntry, 0, tickets)
	for i, p := range a.matches {
		o := matchmaking.AssignOutcome{Err: errOutcomes}
		if len(a.outcomes) == len(a.matches) {
			o = a.outcomes[i]
		}
		switch {
		case errors.Is(o.Err, matchmaking.ErrNotAssigned):
			p.err = o.Err
			r.refused = append(r.refused, p)
		case errors.Is(o.Err, lease.ErrLost):
			p.err = o.Err
			r.lost = append(r.lost, p)
		case o.Err != nil:
			storageErr = o.Err
			todo, again = append(todo, p), append(again, a.assignments[i])
		case len(o.Conflicts) > 0:
			r.conflicts = append(r.conflicts, conflicted{placed: p, conflicts: o.Conflicts})
		default:
			r.assigned = append(r.assigned, p.Members...)
			m.metrics.Matched(o.Waits)
			entries = appendOutgoing(entries, p.ID, a.assignments[i], o.Entries)
		}
	}
	m.outbox.Offer(entries)
	m.health.storing.Report(ctx, storageErr)
	return todo, again
}

// appendOutgoing appends the outbox entries of a match that was assigned just now: those of tickets whose channels are
// wanted.
func appendOutgoing(to []matchmaking.OutboxEntry, matchID string, m matchmaking.AssignMatch,
	entries []string) []matchmaking.OutboxEntry {
	for i, entry := range entries {
		if entry == "" {
			continue
		}
		t := &m.Assignments[i]
		to = append(to, matchmaking.OutboxEntry{Entry: entry, TicketID: t.ID, MatchID: matchID, Epoch: t.Epoch,
			Content: t.Content})
	}
	return to
}

// conclude ends a batch: it gives back what was not assigned, and reports the tickets to the term.
func (m *maker) conclude(ctx context.Context, c claim, r results) {
	outcomes := []outcome{
		m.dropConflicts(ctx, r.assigned, r.conflicts), m.dropUnplaced(r.unplaced), m.dropRefused(ctx, r.refused),
		m.dropLost(r.lost),
		m.dropUnknown(ctx, c, r.unknown),
	}
	if c.fence == 0 {
		var ids []string
		for _, o := range outcomes {
			ids = append(ids, idsOf(o.PutBack)...)
			for _, h := range o.Held {
				ids = append(ids, h.Ticket.ID)
			}
		}
		if len(ids) > 0 {
			m.release(ctx, c, ids)
		}
	}
	for _, o := range outcomes {
		if len(o.Assigned)+len(o.PutBack)+len(o.Gone)+len(o.Held) > 0 {
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
		m.split(p, &o)
	}
	return o
}

// split adds the tickets of a match that could not be assigned to an outcome: those that prevented it, and the others,
// which are available again.
func (m *maker) split(f *conflicted, o *outcome) {
	why := make(map[string]matchmaking.Conflict, len(f.conflicts))
	for _, c := range f.conflicts {
		why[c.ID] = c
	}
	for _, t := range f.Members {
		switch c := why[t.ID]; {
		case c.Reason == matchmaking.ConflictGone:
			o.Gone = append(o.Gone, t)
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
		o.PutBack, o.Lost = append(o.PutBack, p.Members...), p.err
		m.giveBack(p)
	}
	return o
}

// dropUnknown returns the outcome of matches of which it isn't known whether they were assigned. Players may know the
// place, so it is not given back. Their tickets can be matched again if they do not.
func (m *maker) dropUnknown(ctx context.Context, c claim, matches []placed) (o outcome) {
	for i := range matches {
		p := &matches[i]
		o.PutBack, o.From, o.Uncertain = append(o.PutBack, p.Members...), c.deadline, true
		m.log.ErrorContext(ctx, "it is not known whether a match was assigned", "match", p.ID, "tickets",
			idsOf(p.Members), "connection", p.place.Connection)
	}
	return o
}

// dropUnplaced returns the outcome of matches without a place.
func (m *maker) dropUnplaced(matches []placed) (o outcome) {
	for i := range matches {
		p := &matches[i]
		o.PutBack, o.From = append(o.PutBack, p.Members...), p.again
		if p.asked {
			m.giveBack(p)
		}
	}
	return o
}

// dropRefused returns the outcome of matches that the storage will never accept.
func (m *maker) dropRefused(ctx context.Context, matches []placed) (o outcome) {
	for i := range matches {
		p := &matches[i]
		o.PutBack, o.From = append(o.PutBack, p.Members...), time.Now().Add(pace.LastBackoff)
		m.metrics.ProposalRefused()
		m.log.ErrorContext(ctx, "the storage refuses a match", "match", p.ID, "tickets", len(p.Members), "error", p.err)
		m.giveBack(p)
	}
	return o
}
