package outbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	// readBatch is the number of due entries that the backstop reads at once.
	readBatch = 500
	// backstopOthers is the factor for the interval and the minimum age of entries on servers that don't direct the
	// queue. After this number of consecutive empty passes, the director's server uses the longer interval too.
	backstopOthers = 5
)

// Queue is a relay's part for one queue. Offer may be called by many goroutines, Run by one.
type Queue struct {
	relay    *Relay
	name     string
	metrics  Metrics
	readMore chan struct{} // buffered (capacity 1): the outbox has further entries, and there is room
	active   chan struct{} // buffered (capacity 1): matches were assigned

	mu      sync.Mutex
	failing map[string]retry // by entry
}

// retry is the state of an entry whose publishing failed.
type retry struct {
	at   time.Time
	wait *backoff.ExponentialBackOff
}

// Queue returns the relay's part for a queue.
func (r *Relay) Queue(name string, m Metrics) *Queue {
	return &Queue{relay: r, name: name, metrics: m, readMore: make(chan struct{}, 1), active: make(chan struct{}, 1),
		failing: map[string]retry{}}
}

// Offer hands over new assignments. It doesn't block: entries without room are left to Run. Call it without entries if
// it is unknown which assignments were made.
func (q *Queue) Offer(entries []matchmaking.OutboxEntry) {
	q.relay.offer(q, entries)
	pace.Signal(q.active)
}

// wasActive reports whether Offer was called since the previous call of wasActive.
func (q *Queue) wasActive() bool {
	select {
	case <-q.active:
		return true
	default:
		return false
	}
}

// Run is the backstop: until ctx ends, it periodically offers old entries of the outbox, and entries that had no room
// as soon as there is room. directed reports whether this server directs the queue.
func (q *Queue) Run(ctx context.Context, directed func() bool) {
	failing := outage.New(q.relay.log.With("queue", q.name), "cannot relay the outbox")
	timer := time.NewTimer(pace.Jitter(q.relay.options.Age))
	defer timer.Stop()
	var matchesAssigned <-chan struct{} // active, during quiet passes
	empty := 0                          // consecutive passes without entries and without new matches
	for {
		age := q.relay.options.Age
		select {
		case <-timer.C:
		case <-q.readMore:
			age = 0
		case <-matchesAssigned:
			matchesAssigned, empty = nil, 0
			timer.Reset(pace.Jitter(q.relay.options.Age))
			continue
		case <-ctx.Done():
			return
		}
		wait := q.relay.options.Age
		if !directed() {
			wait *= backstopOthers
			age = wait
		}
		found, err := q.pass(ctx, age)
		failing.Report(ctx, err)
		if empty++; found > 0 || err != nil || q.wasActive() {
			empty = 0
		}
		if matchesAssigned = nil; empty >= backstopOthers {
			matchesAssigned, wait = q.active, q.relay.options.Age*backstopOthers
		}
		timer.Reset(pace.Jitter(wait))
	}
}

// pass offers entries of at least the given age, and returns the number found.
func (q *Queue) pass(ctx context.Context, age time.Duration) (found int, err error) {
	failing, pending := q.failures(), q.relay.pendingOf(q.name)
	limit := readBatch + failing + len(pending)
	entries, err := q.relay.options.Store.Outgoing(ctx, q.name, age, limit)
	if err != nil {
		return 0, fmt.Errorf("read the outbox: %w", err)
	}
	q.relay.offer(q, q.due(entries, pending))
	if len(entries) == limit && failing < maxHeld {
		q.relay.scheduleRead(q)
	}
	return len(entries), nil
}

// failures returns the number of entries that wait for a retry, maxHeld at most.
func (q *Queue) failures() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.failing)
}

// due returns the entries except recent failures, and except those that were pending when the read of the outbox began:
// they may have been published since.
func (q *Queue) due(entries []matchmaking.OutboxEntry, pending map[string]bool) []matchmaking.OutboxEntry {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	due := entries[:0]
	for _, e := range entries {
		if f, failed := q.failing[e.Entry]; !pending[e.Entry] && (!failed || !now.Before(f.at)) {
			due = append(due, e)
		}
	}
	// An entry without a retry for that long is no longer in the outbox.
	maps.DeleteFunc(q.failing,
		func(_ string, f retry) bool { return now.Sub(f.at) > backstopOthers*backstopOthers*q.relay.options.Age })
	return due
}

// published records that an assignment of the given age was published.
func (q *Queue) published(entry string, age time.Duration) {
	q.metrics.Published(age)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.failing) > 0 {
		delete(q.failing, entry)
	}
}

// failed delays the retry of an entry. The first failure is logged, unless the storage is the cause.
func (q *Queue) failed(ctx context.Context, d *delivery, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f, again := q.failing[d.Entry]
	if !again && len(q.failing) >= maxHeld {
		return // retried by the next pass
	}
	if !again {
		f.wait = pace.NewBackoff()
		if !isStorageFailure(err) {
			q.relay.log.ErrorContext(ctx, "cannot publish an assignment", "queue", q.name, "ticket", d.TicketID,
				"match", d.MatchID, "error", err)
		}
	}
	f.at = time.Now().Add(f.wait.NextBackOff())
	q.failing[d.Entry] = f
}

// isUndeliverable reports whether an entry of the given age can never be published, because of err, and its channel
// must have expired.
func (q *Queue) isUndeliverable(age time.Duration, err error) bool {
	var clientErr *fault.Error
	return errors.As(err, &clientErr) && (clientErr.Kind == fault.Invalid || clientErr.Kind == fault.TooLarge) &&
		age >= q.relay.options.Keep
}

// isStorageFailure reports whether an error is a storage failure, which affects all assignments.
func isStorageFailure(err error) bool {
	var clientErr *fault.Error
	return errors.As(err, &clientErr) && (clientErr.Kind == fault.Unavailable || clientErr.Kind == fault.StorageFull) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
