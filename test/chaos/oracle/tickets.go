package oracle

import (
	"fmt"
	"slices"
	"sync"
)

// Tickets checks the tickets of any number of queues.
type Tickets struct {
	rules Rules

	mu      sync.Mutex
	tickets map[string]*ticketLog
	seats   map[string]int // tickets of a match, by queue
	refused []string
}

// ticketLog is the record of one ticket.
type ticketLog struct {
	queue   string
	seen    []Assignment // different ones
	ended   string       // how it ended without a match, or empty
	unknown bool         // it may exist although its creation failed
	forgot  string       // its status at the end if its match was missing then, or empty
	filler  bool         // created only to complete the last match; it may wait forever
}

// Assignment is an assignment as a player received it.
type Assignment struct {
	Match      string
	Connection string
}

// NewTickets returns a Tickets without any records. seats has the size of a match for each queue.
func NewTickets(rules Rules, seats map[string]int) *Tickets {
	return &Tickets{rules: rules, tickets: map[string]*ticketLog{}, seats: seats}
}

// Attempted records that a player is creating a ticket. The ticket may exist from now on.
func (t *Tickets) Attempted(id, queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[id] = &ticketLog{queue: queue, unknown: true}
}

// Filler records that a ticket only completes the last match of its queue. It may wait forever.
func (t *Tickets) Filler(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[id].filler = true
}

// Created records that the creation of a ticket succeeded.
func (t *Tickets) Created(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[id].unknown = false
}

// Assigned records an assignment that a player received.
func (t *Tickets) Assigned(id string, a Assignment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.tickets[id]
	if !slices.Contains(l.seen, a) {
		l.seen = append(l.seen, a)
	}
}

// Ended records that a player was notified of the end of its ticket without a match, such as EXPIRED.
func (t *Tickets) Ended(id, how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[id].ended = how
}

// Matched returns the tickets whose players received an assignment.
func (t *Tickets) Matched() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []string
	for id, l := range t.tickets {
		if len(l.seen) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// Forgotten records that a ticket has no match when it is read later, although its player received an assignment.
func (t *Tickets) Forgotten(id, how string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[id].forgot = how
}

// Vanished records that a ticket does not exist when it is read later, although its player received an assignment.
func (t *Tickets) Vanished(id string) {
	if !t.rules.Failover {
		t.Forgotten(id, "gone")
	}
}

// Refused records an error that a player cannot retry.
func (t *Tickets) Refused(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = append(t.refused, what)
}

// Waiting returns the number of tickets of a queue that were created and have neither a match nor another end.
func (t *Tickets) Waiting(queue string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, l := range t.tickets {
		if l.queue == queue && l.waits() {
			n++
		}
	}
	return n
}

// waits reports whether the ticket was created, and has neither a match nor another end. The caller holds mu.
func (l *ticketLog) waits() bool { return !l.unknown && l.ended == "" && len(l.seen) == 0 }

// TicketVerdict counts tickets, except Matches, Crowded and Split, which count matches.
type TicketVerdict struct {
	Created    int // whose creation succeeded
	Matched    int
	TwoMatches int // with two assignments
	Stuck      int // that wait although a match is possible
	Ended      int // that ended without a match, though not cancelled
	Gone       int // lost by a failover, with the player notified
	Crowded    int // matches with more tickets than seats
	Split      int // matches of which a player was not notified, or with different connections
	Forgotten  int // without a match at the end, although their players received an assignment
	Refused    []string
	Examples   []string
}

// Faults returns the number of broken promises.
func (v TicketVerdict) Faults() int {
	return v.TwoMatches + v.Stuck + v.Ended + v.Crowded + v.Split + v.Forgotten + len(v.Refused)
}

// Verdict returns the verdict on everything recorded. All players must have stopped: waiting tickets count as stuck.
func (t *Tickets) Verdict() TicketVerdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := TicketVerdict{Refused: slices.Clone(t.refused)}
	matches := map[string]*matchLog{}
	for id, l := range t.tickets {
		if !l.unknown {
			v.Created++
		}
		switch {
		case len(l.seen) > 1:
			v.TwoMatches++
			v.example("%s was notified of %v", id, l.seen)
		case l.waits() && !l.filler:
			v.Stuck++
			v.example("%s waits in %s", id, l.queue)
		case l.ended != "" && len(l.seen) == 0 && t.rules.Failover:
			v.Gone++
		case l.ended != "" && len(l.seen) == 0:
			v.Ended++
			v.example("%s ended: %s", id, l.ended)
		}
		if len(l.seen) > 0 {
			v.Matched++
		}
		if l.forgot != "" {
			v.Forgotten++
			v.example("%s was notified of %v, and is %s", id, l.seen, l.forgot)
		}
		addSeats(matches, id, l, t.seats[l.queue])
	}
	for id, m := range matches {
		absent := t.unknownOf(m.queue)
		if m.queue == t.rules.Partial {
			absent = m.seats
		}
		v.checkMatch(id, m, absent)
	}
	return v
}

// matchLog is a match according to its assignments.
type matchLog struct {
	queue   string
	seats   int
	tickets []string
	places  map[string]bool
}

func addSeats(matches map[string]*matchLog, id string, l *ticketLog, seats int) {
	for _, a := range l.seen {
		m := matches[a.Match]
		if m == nil {
			m = &matchLog{queue: l.queue, seats: seats, places: map[string]bool{}}
			matches[a.Match] = m
		}
		if !slices.Contains(m.tickets, id) {
			m.tickets = append(m.tickets, id)
		}
		m.places[a.Connection] = true
	}
}

// unknownOf returns the number of tickets of a queue that may exist although their creation failed. The caller holds
// mu.
func (t *Tickets) unknownOf(queue string) int {
	n := 0
	for _, l := range t.tickets {
		if l.queue == queue && l.unknown {
			n++
		}
	}
	return n
}

// checkMatch compares a match's tickets with its seats, of which so many may have no ticket that is known: one whose
// creation failed may have a seat.
func (v *TicketVerdict) checkMatch(id string, m *matchLog, absent int) {
	switch {
	case len(m.tickets) > m.seats:
		v.Crowded++
		v.example("match %s has %v", id, m.tickets)
	case len(m.tickets) < m.seats-absent, len(m.places) > 1:
		v.Split++
		v.example("match %s of %s was notified to %v at %d places", id, m.queue, m.tickets, len(m.places))
	}
}

// example records an example of a broken promise.
func (v *TicketVerdict) example(format string, args ...any) {
	if len(v.Examples) < 4*maxExamples {
		v.Examples = append(v.Examples, fmt.Sprintf(format, args...))
	}
}
