package grpc

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Limits on queries.
const (
	maxQueries       = 16 // in progress at the same time
	maxQueriesClient = 12 // of one client, so that another one needn't wait for it

	// of the queries that wait: each counts with its pool and waitingBytes. About 1,000 small ones fit, and 250 of one
	// client.
	maxWaiting       = 16 << 20
	maxWaitingClient = maxWaiting / 4 // of one client
	waitingBytes     = 16 << 10       // what a call takes while it waits, at most

	maxQueryWait = time.Minute
)

// slots are permits of queries, of which few are held at the same time: to be in progress, or to go through tickets.
// Other queries wait in a queue. All methods may be called by several goroutines.
type slots struct {
	drained     func() <-chan struct{} // returns a channel that is closed when those that wait end
	limit       int                    // slots given out at a time
	clientLimit int

	mu      sync.Mutex
	open    int // given out
	entered int // queries that have got one so far
	clients map[string]*clientSlots
	queue   []*waiter // in order of arrival
	bytes   int       // of the queue
}

// clientSlots are a client's part of the slots and of the queue. It is removed with the client's last query.
type clientSlots struct {
	open  int // queries that have a slot
	bytes int // of those that wait; each has some
	// last is slots.entered after the client's last query that got a slot. A new client has one less than the value of
	// when it came: it precedes the client that had just entered, and all that enter later.
	last int
}

// waiter is a query in the queue.
type waiter struct {
	client  string
	bytes   int
	entered chan struct{} // closed when it has a slot
}

// newSlots returns the slots of the queries in progress. When the channel that drained returns is closed, those that
// wait end.
func newSlots(drained func() <-chan struct{}) *slots {
	return &slots{
		drained: drained, limit: maxQueries, clientLimit: maxQueriesClient, clients: map[string]*clientSlots{},
	}
}

// newTurns returns the turns to go through tickets, of which there are n at a time. They are of queries in progress,
// which finish while the server drains.
func newTurns(n int) *slots {
	return &slots{limit: n, clientLimit: n, clients: map[string]*clientSlots{}}
}

// acquire waits for a slot for a query of a client, whose pool has size bytes. release must be called afterwards.
// Errors: errQueries if too many queries wait, or no slot was free for maxQueryWait; errDraining; the cause of ctx's
// end.
func (s *slots) acquire(ctx context.Context, client string, size int) (release func(), err error) {
	w := &waiter{client: client, bytes: size + waitingBytes, entered: make(chan struct{})}
	if !s.add(w) {
		return nil, errQueries
	}
	if !w.waits() { // most don't
		return func() { s.release(w) }, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxQueryWait, errQueries)
	defer cancel()
	var drained <-chan struct{}
	if s.drained != nil {
		drained = s.drained()
	}
	select {
	case <-w.entered:
		return func() { s.release(w) }, nil
	case <-drained:
		s.release(w)
		return nil, errDraining
	case <-ctx.Done():
		s.release(w)
		return nil, context.Cause(ctx)
	}
}

// add adds a query to the queue, and reports whether it has a slot or may wait for one.
func (s *slots) add(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[w.client]
	if c == nil {
		c = &clientSlots{last: s.entered - 1}
		s.clients[w.client] = c
	}
	s.queue, s.bytes = append(s.queue, w), s.bytes+w.bytes
	c.bytes += w.bytes
	s.fill()
	if !w.waits() || s.bytes <= maxWaiting && c.bytes <= maxWaitingClient {
		return true
	}
	s.remove(w)
	s.forget(w.client)
	return false
}

// release ends a query, or takes it out of the queue.
func (s *slots) release(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waits() {
		s.remove(w)
	} else {
		s.open--
		s.clients[w.client].open--
		s.fill()
	}
	s.forget(w.client)
}

// fill gives the free slots to queries in the queue. The lock is held, as for all methods below.
func (s *slots) fill() {
	for s.open < s.limit {
		w := s.next()
		if w == nil {
			return
		}
		s.remove(w)
		s.open++
		s.entered++
		c := s.clients[w.client]
		c.open, c.last = c.open+1, s.entered
		close(w.entered)
	}
}

// next returns the query of the queue that is the next to have a slot, or nil if the clients of all have as many as
// they can. It is the oldest of the client with the fewest slots and, among equal ones, of the one whose last query
// entered first.
func (s *slots) next() (next *waiter) {
	for _, w := range s.queue {
		if s.clients[w.client].open < s.clientLimit && (next == nil || s.compare(w, next) < 0) {
			next = w
		}
	}
	return next
}

func (s *slots) compare(a, b *waiter) int {
	of, other := s.clients[a.client], s.clients[b.client]
	return cmp.Or(cmp.Compare(of.open, other.open), cmp.Compare(of.last, other.last))
}

// remove takes a query out of the queue.
func (s *slots) remove(w *waiter) {
	i := slices.Index(s.queue, w)
	s.queue, s.bytes = slices.Delete(s.queue, i, i+1), s.bytes-w.bytes
	s.clients[w.client].bytes -= w.bytes
}

// forget removes a client without queries.
func (s *slots) forget(client string) {
	if c := s.clients[client]; c.open == 0 && c.bytes == 0 {
		delete(s.clients, client)
	}
}

// waits reports whether the query has no slot.
func (w *waiter) waits() bool {
	select {
	case <-w.entered:
		return false
	default:
		return true
	}
}

// waiting returns the number of queries in the queue.
func (s *slots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}
