package simulation

import (
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// The bounds of a Recorder.
const (
	MaxRecorded   = 10_000    // tickets
	maxBytes      = 8 << 20   // of their criteria, statistics and search fields, about
	RecordedFor   = time.Hour // since they were created
	bytesOfTicket = 400       // without these
	bytesOfValue  = 48        // of a criterion, a statistic or a search field, besides its name
)

// Recorder keeps the tickets that were created last, of all queues, with what matches depend on. Any number of
// goroutines may use it.
type Recorder struct {
	mu      sync.Mutex
	tickets []recorded // the oldest first
	bytes   int
}

// recorded is a ticket of a queue.
type recorded struct {
	queue  string
	ticket *matchmaking.Ticket
	bytes  int
}

// Add adds a ticket that was created. It keeps a copy, which shares the criteria and fields.
func (r *Recorder) Add(t *matchmaking.Ticket) {
	copied := *t
	copied.KeepOnly(matchmaking.FieldsSearch)
	item := recorded{queue: t.Queue, ticket: &copied, bytes: bytesOf(&copied)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tickets, r.bytes = append(r.tickets, item), r.bytes+item.bytes
	for len(r.tickets) > 0 && (len(r.tickets) > MaxRecorded || r.bytes > maxBytes ||
		t.CreateTime.Sub(r.tickets[0].ticket.CreateTime) > RecordedFor) {
		r.bytes -= r.tickets[0].bytes
		r.tickets[0] = recorded{}
		r.tickets = r.tickets[1:]
	}
}

// Tickets returns the recorded tickets of a queue that were created within RecordedFor before now, the oldest first.
func (r *Recorder) Tickets(queue string, now time.Time) (found []*matchmaking.Ticket) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, item := range r.tickets {
		if item.queue == queue && now.Sub(item.ticket.CreateTime) <= RecordedFor {
			found = append(found, item.ticket)
		}
	}
	return found
}

func bytesOf(t *matchmaking.Ticket) int {
	n := bytesOfTicket + len(t.ID)
	for _, c := range t.Criteria {
		n += bytesOfValue + len(c.Name)
	}
	for _, s := range t.Statistics {
		n += bytesOfValue + len(s.Name)
	}
	for name := range t.SearchFields.DoubleArgs {
		n += bytesOfValue + len(name)
	}
	for name, value := range t.SearchFields.StringArgs {
		n += bytesOfValue + len(name) + len(value)
	}
	for _, tag := range t.SearchFields.Tags {
		n += bytesOfValue + len(tag)
	}
	return n
}
