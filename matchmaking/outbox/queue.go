package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sync/errgroup"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

const (
	backstopBatch   = 500 // entries that are read at once
	backstopWorkers = 32  // entries that are published at the same time
	// backstopOthers is how much less often servers that don't direct the queue look, and for how much older entries.
	backstopOthers = 5
)

// Queue is a relay's part for one queue. Offer may be called by many goroutines, Run by one.
type Queue struct {
	relay   *Relay
	name    string
	metrics Metrics
	failing map[string]retry // by entry; owned by Run
}

// retry is when an entry that could not be published is tried again.
type retry struct {
	at   time.Time
	wait *backoff.ExponentialBackOff
}

// Queue returns the relay's part for a queue.
func (r *Relay) Queue(name string, m Metrics) *Queue {
	return &Queue{relay: r, name: name, metrics: m, failing: map[string]retry{}}
}

// Offer hands over assignments that were just made. It doesn't wait: what there is no room for is left to Run.
func (q *Queue) Offer(entries []matchmaking.OutboxEntry) {
	now := time.Now()
	list := make([]delivery, len(entries))
	for i, e := range entries {
		list[i] = delivery{queue: q, read: now, OutboxEntry: e}
	}
	q.relay.offer(list)
}

// Run is the backstop: it periodically publishes what has been in the outbox for too long, until ctx ends. directed
// reports whether this server directs the queue.
func (q *Queue) Run(ctx context.Context, directed func() bool) {
	failing := outage.New(q.relay.log.With("queue", q.name), "cannot relay the outbox")
	age := q.relay.o.Age
	for pace.Sleep(ctx, pace.Jitter(age)) {
		age = q.relay.o.Age
		if !directed() {
			age *= backstopOthers
		}
		failing.Report(ctx, q.pass(ctx, age))
	}
}

// pass publishes the entries that are at least of an age.
func (q *Queue) pass(ctx context.Context, age time.Duration) error {
	for ctx.Err() == nil {
		limit := backstopBatch + len(q.failing)
		entries, err := q.relay.o.Store.Outgoing(ctx, q.name, age, limit)
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		removed, err := q.deliver(ctx, q.due(entries))
		if err != nil {
			return err
		}
		if len(entries) < limit || removed == 0 {
			return nil
		}
	}
	return nil
}

// due returns deliveries for entries, without those that are pending and those that failed a moment ago.
func (q *Queue) due(entries []matchmaking.OutboxEntry) []delivery {
	now := time.Now()
	var list []delivery
	failing := make(map[string]retry, len(q.failing))
	for _, e := range entries {
		d := delivery{queue: q, OutboxEntry: e, read: now}
		f, failed := q.failing[e.Entry]
		if failed {
			failing[e.Entry] = f
		}
		if (!failed || !now.Before(f.at)) && !q.relay.isPending(d.key()) {
			list = append(list, d)
		}
	}
	q.failing = failing
	return list
}

// deliver publishes assignments, and removes from the outbox those that were published or never can be.
func (q *Queue) deliver(ctx context.Context, list []delivery) (removed int, err error) {
	errs := make([]error, len(list))
	var publishing errgroup.Group
	publishing.SetLimit(backstopWorkers)
	for i := range list {
		publishing.Go(func() error {
			errs[i] = q.relay.publish(ctx, &list[i])
			return nil
		})
	}
	_ = publishing.Wait() // always nil: each has its error in errs
	var done []string
	for i, d := range list {
		switch {
		case errs[i] == nil || q.drops(ctx, &d, errs[i]):
			delete(q.failing, d.Entry)
			done = append(done, d.Entry)
		case ctx.Err() == nil:
			q.failed(ctx, &d, errs[i])
		}
	}
	if len(done) == 0 {
		return 0, nil
	}
	if err := q.relay.o.Store.Delivered(ctx, q.name, done); err != nil {
		return 0, fmt.Errorf("remove published assignments from the outbox: %w", err)
	}
	return len(done), nil
}

// failed makes an entry wait before it is tried again. The first failure is logged, unless the storage is the cause.
func (q *Queue) failed(ctx context.Context, d *delivery, err error) {
	f, again := q.failing[d.Entry]
	if !again {
		f.wait = pace.NewBackoff()
		if !isStorageFailure(err) {
			q.relay.log.ErrorContext(ctx, "cannot publish an assignment", "queue", q.name, "ticket", d.TicketID, "match", d.MatchID, "error", err)
		}
	}
	f.at = time.Now().Add(f.wait.NextBackOff())
	q.failing[d.Entry] = f
}

// drops reports whether an entry is dropped: it can never be published, and its channel is gone by now.
func (q *Queue) drops(ctx context.Context, d *delivery, err error) bool {
	var told *fault.Error
	if !errors.As(err, &told) || (told.Kind != fault.Invalid && told.Kind != fault.TooLarge) || d.Age < q.relay.o.Keep {
		return false
	}
	q.relay.log.ErrorContext(ctx, "dropped an assignment that cannot be published", "queue", q.name, "ticket", d.TicketID, "match", d.MatchID, "error", err)
	return true
}

// isStorageFailure reports whether the storage failed, as it would for any other assignment.
func isStorageFailure(err error) bool {
	var told *fault.Error
	return errors.As(err, &told) && (told.Kind == fault.Unavailable || told.Kind == fault.StorageFull) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
