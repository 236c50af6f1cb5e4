package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/drain"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	// linger is the time that a feed continues without waits.
	linger = 10 * time.Second
	// confirmWithin is the time that the first reads of a feed wait for its confirmation. They are repeated after a
	// later confirmation.
	confirmWithin = 250 * time.Millisecond
	// backstop is the approximate interval of reads of a ticket without events. It is less than the shortest usual
	// assignmentTTL, so that a lost assignment is found before it expires.
	backstop = 40 * time.Second
	// readBatch is the number of tickets in one read call.
	readBatch = 250
	// readRate limits the repeated reads of the server, in tickets per second. Each call counts as callCost
	// additional tickets.
	readRate  = 20_000
	readBurst = 5_000
	callCost  = 25
	// readGranularity is the granularity of the times of repeated reads, so that many are made in one call.
	readGranularity = 250 * time.Millisecond
	// retryAfter is the pause of a feed after a failed repeated read.
	retryAfter = time.Second
)

// ErrEnded is the error of waits when the service ends.
var ErrEnded = fault.ErrUnavailable.WithCause(errors.New("waiting for assignments has ended"))

// Watches are the waits of a server. Its methods may be called by many goroutines.
type Watches struct {
	store   matchmaking.AssignedFeed
	failing *outage.Outage
	limit   *rate.Limiter // limits repeated reads
	added   chan struct{} // buffered (capacity 1): a feed is new
	drained *drain.State

	mu        sync.Mutex // also guards all feeds
	feeds     map[string]*feed
	starting  []*feed // not yet started
	noteBytes int     // of all feeds' notes
}

// New returns Watches without waits.
func New(store matchmaking.AssignedFeed, log *slog.Logger) *Watches {
	return &Watches{
		store: store, failing: outage.New(log, "cannot read tickets that players wait for"),
		limit: rate.NewLimiter(readRate, readBurst), added: make(chan struct{}, 1), drained: drain.New(),
		feeds: map[string]*feed{},
	}
}

// Run serves waits until ctx ends, and then drains them. It must be called once; waits that began before the call
// continue then.
func (w *Watches) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer w.Drain()
	for {
		for _, f := range w.takeStarting() {
			running.Go(func() { f.run(ctx) })
		}
		select {
		case <-w.added:
		case <-ctx.Done():
			return
		}
	}
}

// Drain ends all waits with ErrEnded, now and later.
func (w *Watches) Drain() { w.drained.Begin() }

// Resume lets calls wait again after Drain.
func (w *Watches) Resume() { w.drained.End() }

func (w *Watches) takeStarting() []*feed {
	w.mu.Lock()
	defer w.mu.Unlock()
	starting := w.starting
	w.starting = nil
	return starting
}

// Await waits for the assignment of a ticket, and returns at once if it is assigned. Errors: matchmaking.ErrNoTicket if
// the ticket neither waits nor is assigned, now or later; ErrEnded; that of ctx; and the store's, if the first read of
// the ticket fails.
func (w *Watches) Await(ctx context.Context, queue, id string) (*matchmaking.Assignment, error) {
	f, e := w.join(queue, id)
	defer func() { w.endWait(f, e) }()
	for {
		select {
		case <-e.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.drained.Begun():
			return nil, ErrEnded
		}
		if e.result.err != nil {
			return nil, e.result.err
		}
		a := new(matchmaking.Assignment)
		err := json.Unmarshal([]byte(e.result.content), a)
		if err == nil && a.TicketID == id {
			return a, nil
		}
		if e.result.read {
			return nil, fmt.Errorf("the stored assignment of ticket %s can't be read: %w", id,
				errors.Join(err, errForeign))
		}
		e = w.rejoin(f, id) // perhaps a notification from someone else
	}
}

var errForeign = errors.New("it isn't the ticket's")

// join adds an entry to the feed of a queue, which it starts if needed.
func (w *Watches) join(queue, id string) (*feed, *entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.acquireFeed(queue)
	return f, f.join(id)
}

// acquireFeed returns the feed of a queue, which it starts if needed. The caller holds the lock, and must call
// releaseFeed.
func (w *Watches) acquireFeed(queue string) *feed {
	f := w.feeds[queue]
	if f == nil {
		f = newFeed(w, queue)
		w.feeds[queue] = f
		w.starting = append(w.starting, f)
		pace.Signal(w.added)
	}
	f.users++
	return f
}

// releaseFeed ends a use of a feed. The caller holds the lock.
func (w *Watches) releaseFeed(f *feed) {
	if f.users--; f.users == 0 {
		f.idleSince = time.Now()
		pace.Signal(f.wake)
	}
}

// endWait ends a wait, and its use of the feed.
func (w *Watches) endWait(f *feed, e *entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.remove(e)
	w.releaseFeed(f)
}

// rejoin returns a new entry whose ticket is to be read.
func (w *Watches) rejoin(f *feed, id string) *entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	return f.add(id)
}

// Count returns the number of waits, and of queues with a feed.
func (w *Watches) Count() (waits, feeds int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.feeds {
		waits += f.users
	}
	return waits, len(w.feeds)
}

// AwaitRemoved returns nil after a notification that a ticket of a queue was removed, or when timeout receives. A
// notification can be lost, or be about an earlier ticket with the ID. Errors: ErrEnded, and that of ctx.
func (w *Watches) AwaitRemoved(ctx context.Context, queue, id string, timeout <-chan time.Time) error {
	f, removed := w.addHold(queue, id)
	defer w.removeHold(f, id, removed)
	select {
	case <-removed:
		return nil
	case <-timeout:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.drained.Begun():
		return ErrEnded
	}
}

// addHold returns a channel of a feed that is closed when a ticket is removed.
func (w *Watches) addHold(queue, id string) (*feed, chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, removed := w.acquireFeed(queue), make(chan struct{})
	f.holds[id] = append(f.holds[id], removed)
	return f, removed
}

// removeHold ends one hold, and its use of the feed.
func (w *Watches) removeHold(f *feed, id string, removed chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releaseFeed(f)
	rest := slices.DeleteFunc(f.holds[id], func(c chan struct{}) bool { return c == removed })
	if len(rest) == 0 {
		delete(f.holds, id)
		return
	}
	f.holds[id] = rest
}

// endHolds ends all holds of a ticket. The caller holds Watches' lock.
func (f *feed) endHolds(id string) {
	for _, removed := range f.holds[id] {
		close(removed)
	}
	delete(f.holds, id)
}
