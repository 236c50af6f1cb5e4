package round

import (
	"time"

	"github.com/tidemark-dev/tidemark/internal/agenda"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Pool holds the waiting tickets of a queue in memory, each in one of three states:
//
//	                    start of its match
//	add ──► waiting ─────────────────────────────────► in match ──► finish: assigned or gone, removed
//	           ▲                                          │
//	           │                putBack: its match failed │
//	           ├──────────────────────────────────────────┤
//	           │ wake                                     │ for a while
//	           └──────────────── parked ◄─────────────────┘
//	                                ▲
//	                                └── add: another claim holds it until a deadline
//
// A ticket that was cancelled or has expired is removed from any state. The matcher has exactly the waiting tickets,
// except those that it has proposed: they stay waiting here until their match starts, or they are offered again.
//
// It does no I/O, starts no goroutines and reads no clock: a director passes what it has read and decided, and the
// time. The pool is a hint: the storage decides what can be claimed and assigned. One goroutine uses it.
type Pool struct {
	matcher Matcher
	tickets map[string]*entry
	parked  agenda.Agenda[*pause]
	inMatch int // tickets
	changed bool
}

// Matcher is the part of a matchmaking.Matcher that learns about available tickets.
type Matcher interface {
	Add(t *matchmaking.Ticket)
	Remove(id string)
}

// entry is a ticket in the pool.
type entry struct {
	ticket *matchmaking.Ticket
	pause  *pause // of a parked ticket, else nil
	state  state
	// uncertain is set if it is not known whether a match of the ticket was assigned.
	uncertain bool
}

// pause is the time for which a ticket is parked.
type pause struct {
	agenda.Slot // the end
	entry       *entry
}

type state uint8

const (
	waiting state = iota // available for matches
	parked               // not available until a time
	inMatch              // in a match that is being made
)

// NewPool returns an empty pool, which adds the available tickets to the matcher.
func NewPool(m Matcher) *Pool { return &Pool{matcher: m, tickets: map[string]*entry{}} }

// Add makes a ticket available, or parks it until another claim's deadline if that isn't zero. A ticket that is known
// stays as it is. An earlier ticket with the same ID is removed.
func (p *Pool) Add(t *matchmaking.Ticket, heldUntil time.Time) {
	if e := p.tickets[t.ID]; e != nil && e.ticket.CreateTime.Equal(t.CreateTime) {
		return
	}
	p.Remove(t.ID)
	e := &entry{ticket: t}
	p.tickets[t.ID] = e
	if heldUntil.IsZero() {
		p.offer(e)
	} else {
		p.park(e, heldUntil)
	}
}

// offer makes a ticket available to the matcher.
func (p *Pool) offer(e *entry) {
	e.state = waiting
	p.matcher.Add(e.ticket)
	p.changed = true
}

func (p *Pool) park(e *entry, until time.Time) {
	e.state, e.pause = parked, &pause{entry: e}
	p.parked.Plan(e.pause, until)
}

// unpark ends the pause of a parked ticket.
func (p *Pool) unpark(e *entry) {
	p.parked.Remove(e.pause)
	e.pause = nil
}

// Remove forgets a ticket in any state. A match in progress with it continues without the pool.
func (p *Pool) Remove(id string) {
	e := p.tickets[id]
	if e == nil {
		return
	}
	delete(p.tickets, id)
	switch e.state {
	case waiting:
		p.matcher.Remove(id)
	case parked:
		p.unpark(e)
	case inMatch:
		p.inMatch--
	}
}

// Replace sets the pool to a snapshot of the queue, except for tickets whose matches are in progress. held has the
// deadlines of other claims by ticket. It returns the tickets that the storage lost: they were in the pool, were
// certainly not assigned, and are not in the snapshot.
func (p *Pool) Replace(tickets []*matchmaking.Ticket, held map[string]time.Time) (missing []*matchmaking.Ticket) {
	present := make(map[string]bool, len(tickets))
	for _, t := range tickets {
		present[t.ID] = true
		p.Add(t, held[t.ID])
	}
	for id, e := range p.tickets {
		if present[id] || e.state == inMatch {
			continue
		}
		if e.isUnassigned() {
			missing = append(missing, e.ticket)
		}
		p.Remove(id)
	}
	return missing
}

// StartMatch marks a waiting ticket as being in a match that is being made. The matcher has removed it.
func (p *Pool) StartMatch(id string) {
	p.tickets[id].state = inMatch
	p.inMatch++
}

// CancelMatch reverts StartMatch, and makes the ticket available again.
func (p *Pool) CancelMatch(t *matchmaking.Ticket) {
	if e := p.inMatchEntry(t); e != nil {
		p.inMatch--
		p.offer(e)
	}
}

// Finish removes a ticket in a match that was assigned or doesn't exist any more. Another ticket with its ID stays, in
// any state.
func (p *Pool) Finish(t *matchmaking.Ticket) {
	if p.inMatchEntry(t) != nil {
		p.Remove(t.ID)
	}
}

// PutBack makes a ticket available again after its match failed: now, or from a later time. uncertain reports
// that the match may have been assigned. Another ticket with its ID stays as it is.
func (p *Pool) PutBack(t *matchmaking.Ticket, now, from time.Time, uncertain bool) {
	e := p.inMatchEntry(t)
	if e == nil {
		return
	}
	e.uncertain = e.uncertain || uncertain
	p.inMatch--
	if now.Before(from) {
		p.park(e, from)
	} else {
		p.offer(e)
	}
}

// inMatchEntry returns the entry of a ticket if it is in a match, and isn't that of another ticket with its ID.
func (p *Pool) inMatchEntry(t *matchmaking.Ticket) *entry {
	if e := p.tickets[t.ID]; e != nil && e.state == inMatch && e.ticket.CreateTime.Equal(t.CreateTime) {
		return e
	}
	return nil
}

// Unpark makes a parked ticket available before its time, because the claim that held it was released.
func (p *Pool) Unpark(id string) {
	if e := p.tickets[id]; e != nil && e.state == parked {
		p.unpark(e)
		p.offer(e)
	}
}

// Wake makes parked tickets available whose pause has ended.
func (p *Pool) Wake(now time.Time) {
	for _, ended := range p.parked.Take(now, p.parked.Len()) {
		ended.entry.pause = nil
		p.offer(ended.entry)
	}
}

// NextWake returns when the first parked ticket becomes available, if there is one.
func (p *Pool) NextWake() (at time.Time, ok bool) {
	if first, ok := p.parked.First(); ok {
		return first.Due(), true
	}
	return at, false
}

// Available returns a ticket that is waiting, or nil.
func (p *Pool) Available(id string) *matchmaking.Ticket {
	if e := p.tickets[id]; e != nil && e.state == waiting {
		return e.ticket
	}
	return nil
}

// Len returns the number of tickets.
func (p *Pool) Len() int { return len(p.tickets) }

// InMatches returns the number of tickets in matches that are being made.
func (p *Pool) InMatches() int { return p.inMatch }

// Changed reports whether the next round may find matches that the last one could not.
func (p *Pool) Changed() bool { return p.changed }

// SetChanged sets the value of Changed. The pool sets it to true when a ticket becomes available.
func (p *Pool) SetChanged(changed bool) { p.changed = changed }

// Unassigned returns the tickets that are certainly not assigned.
func (p *Pool) Unassigned() (all []*matchmaking.Ticket) {
	for _, e := range p.tickets {
		if e.isUnassigned() {
			all = append(all, e.ticket)
		}
	}
	return all
}

// Certain reports whether a ticket is known, and its outcome is certain.
func (p *Pool) Certain(t *matchmaking.Ticket) bool {
	e := p.tickets[t.ID]
	return e != nil && e.ticket.CreateTime.Equal(t.CreateTime) && !e.uncertain
}

func (e *entry) isUnassigned() bool { return e.state != inMatch && !e.uncertain }
