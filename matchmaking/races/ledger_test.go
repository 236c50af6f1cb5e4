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
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// ledger is what the servers of an arena did. It may be used by many goroutines.
type ledger struct {
	mu        sync.Mutex
	matches   map[string]*entry
	holds     map[string][]hold        // of each ticket
	gaveUp    map[hold]bool            // of releases that were sent: ticket and token alone
	leases    map[string]string        // the last that was given, by queue
	leaders   map[string]*server       // who has it
	waits     map[string]time.Duration // how long a ticket had waited when it was assigned, by Redis's clock
	conflicts map[matchmaking.ConflictReason]int
	again     int // publications of what was published before
}

// entry is one match.
type entry struct {
	tickets  []string // for which an assignment was asked; nil: for none
	decided  bool     // Redis told what became of it
	assigned bool
	server   *server // that asked for a place; nil: none was asked for
	asked    int     // for a place
	released []matchmaking.Allocation
}

// hold is a ticket that a token had.
type hold struct {
	ticket, token string
	from, until   time.Time // by Redis's clock
}

func newLedger() *ledger {
	return &ledger{
		matches: map[string]*entry{}, holds: map[string][]hold{}, gaveUp: map[hold]bool{}, leases: map[string]string{},
		leaders: map[string]*server{}, waits: map[string]time.Duration{}, conflicts: map[matchmaking.ConflictReason]int{},
	}
}

// match gives a match's entry. Called with mu held.
func (l *ledger) match(id string) *entry {
	e := l.matches[id]
	if e == nil {
		e = &entry{}
		l.matches[id] = e
	}
	return e
}

func (l *ledger) leased(s *server, r matchmaking.LeaseRequest, given bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case given:
		l.leases[r.Queue], l.leaders[r.Queue] = r.Lease, s
	case l.leaders[r.Queue] == s && l.leases[r.Queue] == r.Lease:
		delete(l.leaders, r.Queue)
	}
}

// lease gives the lease that a queue's director has.
func (l *ledger) lease(queue string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leases[queue]
}

// leads tells whether a server was given a queue's lease last.
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

func (l *ledger) givenUp(token string, ids []string) {
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

// repeats gives how many publications found that their message was there.
func (l *ledger) repeats() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.again
}

// count gives how many matches there are of a sort.
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

// holding gives the claims of tickets that have one now, as far as is known: the last of each.
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

// checkMatches compares the matches with who got their messages: all of a match's tickets or none.
func (l *ledger) checkMatches(t *testing.T, got map[string][]string) {
	t.Helper()
	for id, e := range l.matches {
		holders := slices.Sorted(slices.Values(got[id]))
		switch {
		case e.assigned || len(holders) > 0:
			assert.Equal(t, e.tickets, holders, "match %s is that of all its tickets", id)
			assert.False(t, e.decided && !e.assigned, "match %s was refused, and %v got it", id, holders)
		default:
			assert.False(t, e.assigned)
		}
	}
	for id := range maps.Keys(got) {
		assert.Contains(t, l.matches, id, "nobody made the match of %v", got[id])
	}
}

// checkPlaces holds that each place is either an assigned match's or was given back, once. A server that was killed may
// not have come to give one back.
func (l *ledger) checkPlaces(t *testing.T, got map[string][]string, killed func(*server) bool) {
	t.Helper()
	for id, e := range l.matches {
		if e.server == nil {
			continue
		}
		told := e.assigned || len(got[id]) > 0
		assert.Equal(t, 1, e.asked, "match %s got one place", id)
		assert.False(t, told && len(e.released) > 0, "the place of match %s was given back, and %v were told of it", id, got[id])
		assert.LessOrEqual(t, len(e.released), 1, "the place of match %s was given back once", id)
		if !told && !killed(e.server) {
			assert.Len(t, e.released, 1, "the place of match %s was given back", id)
		}
		for _, place := range e.released {
			if place.Token != "" { // else it was never known
				assert.Equal(t, matchmaking.Allocation{Connection: placeOf(id), Token: "token-of-" + id}, place)
			}
		}
	}
}

// checkHolds holds that a claim kept all other ones out until its deadline, unless it was given up.
func (l *ledger) checkHolds(t *testing.T) {
	t.Helper()
	for id, holds := range l.holds {
		slices.SortStableFunc(holds, func(a, b hold) int { return a.from.Compare(b.from) })
		for i, h := range holds[:len(holds)-1] {
			next := holds[i+1]
			fair := next.token == h.token || l.gaveUp[hold{ticket: id, token: h.token}] || !next.from.Before(h.until)
			assert.True(t, fair, "%s took the ticket %s from %s at %s, which had it until %s", next.token, id, h.token, next.from, h.until)
		}
	}
}

// String tells what the races came to.
func (l *ledger) String() string {
	assigned := l.count(func(e *entry) bool { return e.assigned })
	returned := l.count(func(e *entry) bool { return len(e.released) > 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d matches were assigned, %d places given back, conflicts: %v, %d publications repeated",
		assigned, returned, l.conflicts, l.again)
}
