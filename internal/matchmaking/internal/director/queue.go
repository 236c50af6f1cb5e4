package director

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/lease"
)

// Store is the part of the queues' store that a director uses.
type Store interface {
	matchmaking.Claims
	matchmaking.Feed
	// ExpireBackfills is matchmaking.Backfills'.
	ExpireBackfills(ctx context.Context, queue string, limit int) (removed int, err error)
	// Ticket is matchmaking.Tickets'.
	Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
	// States is matchmaking.AssignedFeed's.
	States(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error)
	// Describe is matchmaking.Admin's.
	Describe(ctx context.Context, queue string, matches int) (matchmaking.QueueState, error)
}

// Outbox carries the queue's assignments to their players.
type Outbox interface {
	// Offer hands over new assignments. It doesn't wait.
	Offer(entries []matchmaking.OutboxEntry)
	// Run publishes assignments that stay in the outbox for too long, until ctx ends. directed reports whether this
	// server directs the queue.
	Run(ctx context.Context, directed func() bool)
}

// Metrics counts the work of a server for one queue. Its methods may be called by many goroutines.
type Metrics interface {
	// Directing is called when this server begins and when it ends to direct the queue. It has no tickets in memory
	// then.
	Directing(yes bool)
	// Tickets sets how many tickets wait, and how many of them are in matches in progress.
	Tickets(waiting, inMatches int)
	// Expired counts tickets that were found to have expired.
	Expired(tickets int)
	// Backfills sets how many backfills there are, in a queue that is directed by its user.
	Backfills(count int)
	// BackfillsExpired counts backfills that were removed since they weren't acknowledged in time.
	BackfillsExpired(backfills int)
	// RoundFailed counts a round with a failed match function or evaluator.
	RoundFailed()
	// ProposalRefused counts a proposal that cannot be a match.
	ProposalRefused()
	// AllocationFailed counts a match whose allocation failed.
	AllocationFailed()
	// Matched counts an assigned match. waits are the waiting times of its tickets.
	Matched(waits []time.Duration)
	// Conflict counts a match that could not be assigned.
	Conflict(reason matchmaking.ConflictReason)
}

// Options configures a Queue. All fields but Follow are required.
type Options struct {
	Definition    matchmaking.Definition
	Replaced      <-chan struct{} // closed when the queue has another definition, or none
	Build         matchmaking.Build
	Store         Store
	Leases        *lease.Manager // of the queues' leases
	Subscriptions matchmaking.Subscriptions
	// Wake returns the metrics and the outbox for the time until the queue is idle again. It is called each time
	// that the queue stops being idle.
	Wake     func() (Metrics, Outbox)
	Idle     *outage.Outage // of checks whether queues are idle; one for all queues
	Follow   matchmaking.Follow
	Logger   *slog.Logger
	LeaseTTL time.Duration // of Leases
	// IdleAfter is how long the queue must have been empty before the lease is released.
	IdleAfter time.Duration
	Drain     time.Duration // limit for matches in progress after Run's context has ended
}

// Queue works on one queue under one definition, on this server. Run is called once; the other methods may be called by
// many goroutines.
type Queue struct {
	options  Options
	events   *events
	director atomic.Pointer[director] // nil: the queue is idle
}

// New returns a queue that is idle.
func New(o Options) *Queue { return &Queue{options: o, events: newEvents()} }

// Directed reports whether this server directs the queue.
func (q *Queue) Directed() bool {
	d := q.director.Load()
	return d != nil && d.directs.Load()
}

// Offer hands assignments of the queue to its outbox, unless the queue is idle. It doesn't wait.
func (q *Queue) Offer(entries []matchmaking.OutboxEntry) {
	if d := q.director.Load(); d != nil {
		d.outbox.Offer(entries)
	}
}

// Run watches the queue, and works on it while it isn't idle, until ctx ends or it has another definition.
func (q *Queue) Run(ctx context.Context) {
	var watching sync.WaitGroup
	defer watching.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watching.Go(func() { q.options.Store.Watch(ctx, q.options.Definition.Name, q.events.notify) })
	failures := pace.NewBackoff()
	var again <-chan time.Time
	for {
		select {
		case <-q.events.changed:
		case <-again:
		case <-q.options.Replaced:
			return
		case <-ctx.Done():
			return
		}
		again = nil
		if err := q.wake(ctx); err != nil {
			again = time.After(failures.NextBackOff())
		} else {
			failures.Reset()
		}
	}
}

// wake works on the queue until it is idle, ctx ends or it has another definition: it directs the queue or waits for
// the lease, and runs its outbox. It returns an error if it can't learn whether the queue is idle.
func (q *Queue) wake(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	running.Go(func() {
		select {
		case <-q.options.Replaced:
			cancel()
		case <-ctx.Done():
		}
	})
	d := newDirector(ctx, &q.options, q.events)
	err := d.run(ctx, sync.OnceFunc(func() {
		q.events.idle.Store(false)
		d.metrics, d.outbox = q.options.Wake()
		q.director.Store(d)
		running.Go(func() { d.outbox.Run(ctx, d.directs.Load) })
	}))
	q.options.Idle.Report(ctx, err)
	q.director.Store(nil)
	q.events.idle.Store(true)
	return err
}
