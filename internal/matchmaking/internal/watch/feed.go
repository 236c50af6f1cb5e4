package watch

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/agenda"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// feed holds the waits of one queue. Its run owns the only goroutine. All fields except the first ones are guarded by
// Watches' lock.
type feed struct {
	watches *Watches
	queue   string
	started time.Time
	wake    chan struct{} // buffered (capacity 1): run has work

	users     int       // waits, including those that are ending
	idleSince time.Time // the time when users became 0
	waits     map[string]*entry
	holds     map[string][]chan struct{} // by ID, of assigned tickets
	notes     notes
	confirmed bool // no notifications are lost
	ready     bool // it was confirmed at least once

	fresh     []*entry              // to be read for the first time, or at once
	agenda    agenda.Agenda[*entry] // to be read later
	planned   []*entry              // taken from the agenda, for a read at dueAt
	dueAt     time.Time             // the time when the rate limit permits the next read
	resume    time.Time             // nothing is taken from the agenda before this time; after a failure
	rereadAll bool                  // all of the agenda is due
}

func newFeed(w *Watches, queue string) *feed {
	return &feed{
		watches: w, queue: queue, started: time.Now(), wake: make(chan struct{}, 1), notes: newNotes(w),
		waits: map[string]*entry{}, holds: map[string][]chan struct{}{},
	}
}

// run listens and reads until ctx ends or the feed had no waits for linger.
func (f *feed) run(ctx context.Context) {
	stop := f.watches.store.ListenAssigned(f.queue, matchmaking.AssignedListener{
		Confirmed: f.confirm, Ended: f.ended, Interrupted: f.interrupt,
	})
	defer stop()
	for {
		batch, wait := f.step()
		switch {
		case len(batch) > 0:
			f.read(ctx, batch)
		case wait <= 0:
			return
		default:
			pace.SleepUntil(ctx, wait, f.wake)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// step returns the tickets to read now, and the maximum time until its next call; 0: the feed has ended.
func (f *feed) step() (batch []*entry, wait time.Duration) {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	now := time.Now()
	if f.users == 0 && now.Sub(f.idleSince) >= linger {
		f.notes.clear()
		delete(f.watches.feeds, f.queue)
		return nil, 0
	}
	if f.rereadAll {
		f.agenda.PlanAll(now)
		f.rereadAll = false
	}
	if f.ready || now.Sub(f.started) >= confirmWithin {
		if batch = f.takeFresh(); len(batch) > 0 {
			return batch, time.Nanosecond
		}
	}
	if f.planned == nil && !now.Before(f.resume) {
		if f.planned = f.agenda.Take(now, readBatch); f.planned != nil {
			f.dueAt = now.Add(f.watches.limit.ReserveN(now, len(f.planned)+callCost).DelayFrom(now))
		}
	}
	if f.planned != nil && !now.Before(f.dueAt) {
		batch, f.planned = slices.DeleteFunc(f.planned, func(e *entry) bool { return e.removed }), nil
	}
	return batch, max(f.next(now).Sub(now), time.Nanosecond)
}

// next returns the time of the next call of step unless something happens before.
func (f *feed) next(now time.Time) time.Time {
	next := now.Add(time.Hour)
	earlier := func(is bool, at time.Time) {
		if is && at.Before(next) {
			next = at
		}
	}
	earlier(f.users == 0, f.idleSince.Add(linger))
	earlier(len(f.fresh) > 0, f.started.Add(confirmWithin))
	earlier(f.planned != nil, f.dueAt)
	if first, ok := f.agenda.First(); ok && f.planned == nil {
		due := first.Due()
		if due.Before(f.resume) {
			due = f.resume
		}
		earlier(true, due)
	}
	return earliest(next, f.notes.forget(now))
}

func earliest(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// takeFresh removes fresh entries, up to the batch limit.
func (f *feed) takeFresh() (batch []*entry) {
	for len(f.fresh) > 0 && len(batch) < readBatch {
		e := f.fresh[0]
		f.fresh[0] = nil
		f.fresh = f.fresh[1:]
		e.fresh = false
		if !e.removed {
			f.agenda.Remove(e)
			batch = append(batch, e)
		}
	}
	return batch
}

// read reads tickets, and applies the results to their entries.
func (f *feed) read(ctx context.Context, batch []*entry) {
	ids := make([]string, len(batch))
	for i, e := range batch {
		ids[i] = e.id
	}
	states, err := f.watches.store.States(ctx, f.queue, ids)
	if ctx.Err() != nil {
		return
	}
	f.watches.failing.Report(ctx, err)
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	now := time.Now()
	for i, e := range batch {
		switch {
		case e.removed:
		case err == nil:
			f.apply(e, &states[i], now)
		case e.created == 0:
			f.complete(e, &result{err: err})
		default:
			f.resume = now.Add(retryAfter)
			f.plan(e, f.resume)
		}
	}
}

// apply applies the state that was read of a ticket.
func (f *feed) apply(e *entry, s *matchmaking.TicketState, now time.Time) {
	created := s.Created.UnixMicro()
	early := e.result
	e.result = nil
	switch {
	case s.Created.IsZero(), e.created != 0 && created != e.created:
		f.complete(e, &result{err: matchmaking.ErrNoTicket})
		return
	case s.Content != "":
		f.complete(e, &result{content: s.Content, read: true})
		return
	}
	e.created = created
	f.plan(e, f.due(now.Add(s.Remaining))) // at once if it is assigned, but Unconfirmed
	if early != nil {
		f.notify(e, early)
	}
}

// notify applies a notification to an entry with the ticket's ID.
func (f *feed) notify(e *entry, n *result) {
	switch {
	case e.created == 0:
		if e.result == nil || e.result.created < n.created {
			e.result = n
		}
	case n.created < e.created: // of an earlier ticket
	case n.created > e.created, n.err == nil && n.content == "":
		f.refresh(e)
	default:
		f.complete(e, n)
	}
}

// confirm handles the confirmation of the subscription: no notification is lost from now on.
func (f *feed) confirm() {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	f.confirmed, f.ready, f.rereadAll = true, true, true // a read in progress is repeated too
	pace.Signal(f.wake)
}

// interrupt handles an interruption: notifications may be lost.
func (f *feed) interrupt() {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	f.confirmed = false
	f.notes.clear()
}

// ended handles a notification about a ticket.
func (f *feed) ended(t matchmaking.TicketEnd) {
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	if t.Removed {
		f.endHolds(t.ID)
	}
	e := f.waits[t.ID]
	if e == nil && !f.notes.has(t.ID) {
		return
	}
	n := &result{created: t.Created.UnixMicro(), content: t.Content}
	if t.Removed {
		n.err = matchmaking.ErrNoTicket
	}
	for e != nil {
		next := e.next // notify may remove e
		f.notify(e, n)
		e = next
	}
	if f.notes.has(t.ID) {
		f.notes.record(t.ID, &result{created: n.created, content: strings.Clone(n.content), err: n.err})
	}
}

// join returns an entry for a ticket, which needs no read if the ticket is noted.
func (f *feed) join(id string) *entry {
	n := f.notes.remove(id)
	if n == nil || n.created == 0 {
		return f.add(id)
	}
	if n.result != nil && (n.result.err != nil || n.result.content != "") {
		return &entry{id: id, done: closed, result: n.result, removed: true}
	}
	e := f.link(id)
	e.created = n.created
	if n.result != nil {
		f.refresh(e)
		return e
	}
	f.plan(e, f.due(n.expires))
	return e
}

// due returns the time of a ticket's next read if nothing happens: the expected end of its life, or the backstop.
func (f *feed) due(expires time.Time) time.Time {
	after := min(expires.Sub(f.started), time.Since(f.started)+pace.Jitter(backstop))
	return f.started.Add(after.Truncate(readGranularity) + readGranularity)
}

// plan schedules a later read of a ticket.
func (f *feed) plan(e *entry, due time.Time) {
	if f.agenda.Plan(e, due) {
		pace.Signal(f.wake)
	}
}

// closed is the done channel of entries that are final from the beginning.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// add adds an entry whose ticket is to be read.
func (f *feed) add(id string) *entry {
	e := f.link(id)
	f.refresh(e)
	return e
}

func (f *feed) link(id string) *entry {
	e := &entry{id: id, done: make(chan struct{}), next: f.waits[id]}
	if e.next != nil {
		e.next.prev = e
	}
	f.waits[id] = e
	return e
}

// refresh schedules an immediate read of a ticket.
func (f *feed) refresh(e *entry) {
	if !e.fresh {
		e.fresh = true
		f.fresh = append(f.fresh, e)
		pace.Signal(f.wake)
	}
}

// complete ends a wait.
func (f *feed) complete(e *entry, with *result) {
	f.remove(e)
	e.result = with
	close(e.done)
}

// remove removes an entry, if it is in the feed.
func (f *feed) remove(e *entry) {
	if e.removed {
		return
	}
	e.removed = true
	f.agenda.Remove(e)
	if e.next != nil {
		e.next.prev = e.prev
	}
	switch {
	case e.prev != nil:
		e.prev.next = e.next
	case e.next != nil:
		f.waits[e.id] = e.next
	default:
		delete(f.waits, e.id)
	}
	e.prev, e.next = nil, nil
}

// entry is one wait. It is guarded by Watches' lock, except result after done is closed.
type entry struct {
	agenda.Slot // of the feed's agenda: the next read
	id          string
	created     int64         // of the ticket, in µs; 0: unknown before the first read
	done        chan struct{} // closed when result is final
	result      *result       // before done is closed: notifications received while created was unknown; nil: none
	prev, next  *entry        // further entries with the same ID
	fresh       bool          // it is among the feed's fresh entries
	removed     bool          // removed from the feed
}

// result is the result of a wait.
type result struct {
	created int64  // of the ticket
	content string // an assignment as JSON
	read    bool   // content comes from a read, not a notification
	err     error
}
