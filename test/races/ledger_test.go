package races_test

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/lease"
)

// ledger records what the servers of an arena did. It is safe for concurrent use.
type ledger struct {
	mu        sync.Mutex
	matches   map[string]*entry
	holds     map[string][]hold        // of each ticket
	gaveUp    map[hold]bool            // releases that were sent: only ticket and token
	leases    map[string]string        // the token of the last granted lease of each queue
	leaders   map[string]*server       // its holder
	waits     map[string]time.Duration // time from a ticket's creation to its assignment, by Redis's clock
	conflicts map[matchmaking.ConflictReason]int
	again     int // repeated publications
}

// entry is one match.
type entry struct {
	tickets  []string // of the assignment; nil: none was tried
	decided  bool     // the outcome of the assignment is known
	assigned bool
	server   *server // that called the assigner; nil: none did
	asked    int     // calls of the assigner
	released []matchmaking.Allocation
}

// hold is a claim of one ticket.
type hold struct {
	ticket, token string
	from, until   time.Time // by Redis's clock
}

func newLedger() *ledger {
	return &ledger{
		matches: map[string]*entry{}, holds: map[string][]hold{}, gaveUp: map[hold]bool{}, leases: map[string]string{},
		leaders: map[string]*server{}, waits: map[string]time.Duration{},
		conflicts: map[matchmaking.ConflictReason]int{},
	}
}

// match returns the entry of a match. The caller holds mu.
func (l *ledger) match(id string) *entry {
	e := l.matches[id]
	if e == nil {
		e = &entry{}
		l.matches[id] = e
	}
	return e
}

func (l *ledger) leased(s *server, r lease.Request, given bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case given:
		l.leases[r.Name], l.leaders[r.Name] = r.Token, s
	case l.leaders[r.Name] == s && l.leases[r.Name] == r.Token:
		delete(l.leaders, r.Name)
	}
}

// lease returns the token of a queue's lease.
func (l *ledger) lease(queue string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[queue]
}

// leads reports whether a server was the last to receive a queue's lease.
func (l *ledger) leads(s *server, queue string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaders[queue] == s
}

func (l *ledger) claimed(token string, c matchmaking.Claimed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range c.IDs {
		l.holds[id] = append(l.holds[id], hold{ticket: id, token: token, from: c.Now, until: c.Deadline})
	}
}

func (l *ledger) releasedClaims(token string, ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.gaveUp[hold{ticket: id, token: token}] = true
	}
}

func (l *ledger) assigning(r matchmaking.AssignRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range r.Matches {
		e := l.match(m.ID)
		e.tickets = nil
		for _, t := range m.Assignments {
			e.tickets = append(e.tickets, t.ID)
		}
		slices.Sort(e.tickets)
	}
}

func (l *ledger) assigned(r matchmaking.AssignRequest, outcomes []matchmaking.AssignOutcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, o := range outcomes {
		e := l.match(r.Matches[i].ID)
		switch {
		case o.Err != nil:
		case len(o.Conflicts) > 0:
			e.decided = true
			l.conflicts[o.Conflicts[0].Reason]++
		default:
			e.decided, e.assigned = true, true
			for j, waited := range o.Waits {
				l.waits[r.Matches[i].Assignments[j].ID] = waited
			}
		}
	}
}

func (l *ledger) allocating(s *server, p matchmaking.Proposal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.match(p.ID)
	e.server = s
	e.asked++
}

func (l *ledger) released(match string, place matchmaking.Allocation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.match(match)
	e.released = append(e.released, place)
}

func (l *ledger) published(list []channel.Published) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range list {
		if p.Duplicate {
			l.again++
		}
	}
}

// repeats returns the number of repeated publications.
func (l *ledger) repeats() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again
}

// count returns the number of matches for which is returns true.
func (l *ledger) count(is func(*entry) bool) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, e := range l.matches {
		if is(e) {
			n++
		}
	}
	return n
}

// holding returns the last known claim of each ticket.
func (l *ledger) holding(ids []string) map[string]hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[string]hold{}
	for _, id := range ids {
		if all := l.holds[id]; len(all) > 0 {
			found[id] = all[len(all)-1]
		}
	}
	return found
}

// checkMatches checks that all tickets of a match or none received its message. got maps matches to tickets.
func (l *ledger) checkMatches(t *testing.T, got map[string][]string) {
	t.Helper()
	for id, e := range l.matches {
		holders := slices.Sorted(slices.Values(got[id]))
		switch {
		case e.assigned || len(holders) > 0:
			assert.Equal(t, e.tickets, holders, "tickets of match %s", id)
			assert.False(t, e.decided && !e.assigned, "match %s was refused, but %v received it", id, holders)
		default:
			assert.False(t, e.assigned)
		}
	}
	for id := range maps.Keys(got) {
		assert.Contains(t, l.matches, id, "unknown match of %v", got[id])
	}
}

// checkPlaces checks that each allocation belongs to an assigned match or was released once. A killed server may not
// have released one.
func (l *ledger) checkPlaces(t *testing.T, got map[string][]string, killed func(*server) bool) {
	t.Helper()
	for id, e := range l.matches {
		if e.server == nil {
			continue
		}
		reported := e.assigned || len(got[id]) > 0
		assert.Equal(t, 1, e.asked, "allocations of match %s", id)
		assert.False(t, reported && len(e.released) > 0, "match %s was released, but %v received it", id, got[id])
		assert.LessOrEqual(t, len(e.released), 1, "releases of match %s", id)
		if !reported && !killed(e.server) {
			assert.Len(t, e.released, 1, "releases of match %s", id)
		}
		for _, place := range e.released {
			if place.Token != "" { // else the response was lost
				assert.Equal(t, matchmaking.Allocation{Connection: placeOf(id), Token: "token-of-" + id}, place)
			}
		}
	}
}

// checkHolds checks that no claim of a ticket started before the deadline of the previous one, unless that was
// released, or was on an earlier ticket with the ID: a server that dies while it creates a ticket undoes that, and its
// player creates it elsewhere.
func (l *ledger) checkHolds(t *testing.T, ends map[string]end) {
	t.Helper()
	for id, holds := range l.holds {
		slices.SortStableFunc(holds, func(a, b hold) int { return a.from.Compare(b.from) })
		for i, h := range holds[:len(holds)-1] {
			next := holds[i+1]
			another := h.from.Before(ends[id].ticket.CreateTime)
			fair := another || next.token == h.token || l.gaveUp[hold{ticket: id, token: h.token}] ||
				!next.from.Before(h.until)
			assert.True(t, fair, "%s claimed the ticket %s of %s at %s, before the deadline at %s", next.token, id,
				h.token, next.from, h.until)
		}
	}
}

// String summarizes the ledger.
func (l *ledger) String() string {
	assigned := l.count(func(e *entry) bool { return e.assigned })
	returned := l.count(func(e *entry) bool { return len(e.released) > 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d matches assigned, %d allocations released, conflicts: %v, %d publications repeated",
		assigned, returned, l.conflicts, l.again)
}
