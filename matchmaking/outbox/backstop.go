package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/outage"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

const (
	backstopBatch   = 500 // entries that are read at once
	backstopWorkers = 32  // that are published at the same time
	// backstopOthers is how much rarer than the queue's director, and for how much older entries, other servers look.
	backstopOthers = 5
)

// Queue is one queue's part of a relay. Its Run is the backstop: it publishes what stands in the outbox for too long,
// what a relay that died left, or could not publish. Offer may be called by many goroutines.
type Queue struct {
	relay   *Relay
	name    string
	metrics Metrics
	failing map[string]failing // owned by Run
}

// Queue returns a queue's part of the relay.
func (r *Relay) Queue(name string, m Metrics) *Queue {
	return &Queue{relay: r, name: name, metrics: m, failing: map[string]failing{}}
}

// Offer hands assignments over that were made just now. It doesn't wait: those that there is no room for are left to
// the backstop.
func (q *Queue) Offer(entries []matchmaking.OutboxEntry) {
	now := time.Now()
	list := make([]delivery, len(entries))
	for i, e := range entries {
		list[i] = delivery{queue: q, at: now, OutboxEntry: e}
	}
	q.relay.offer(list)
}

// failing is an entry that couldn't be published.
type failing struct {
	again time.Time
	wait  *backoff.ExponentialBackOff
}

// Run looks into the outbox every so often, until ctx ends. directed reports whether this server directs
// the queue.
func (q *Queue) Run(ctx context.Context, directed func() bool) {
	down := outage.New(q.relay.log, "the outbox of queue "+q.name+" can't be relayed")
	age := q.relay.o.Age
	for pace.Sleep(ctx, pace.Jitter(age)) {
		age = q.relay.o.Age
		if !directed() {
			age *= backstopOthers
		}
		down.Report(ctx, q.pass(ctx, age))
	}
}

// pass publishes entries of an age or more until there are no others.
func (q *Queue) pass(ctx context.Context, age time.Duration) error {
	for ctx.Err() == nil {
		limit := backstopBatch + len(q.failing)
		entries, err := q.relay.o.Store.Outgoing(ctx, q.name, age, limit)
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		removed, err := q.relayAll(ctx, q.due(entries))
		if err != nil {
			return err
		}
		if len(entries) < limit || removed == 0 {
			return nil
		}
	}
	return nil
}

// due leaves out what the relay has in hand and what failed a short while ago.
func (q *Queue) due(entries []matchmaking.OutboxEntry) []delivery {
	now := time.Now()
	var list []delivery
	still := make(map[string]failing, len(q.failing))
	for _, e := range entries {
		d := delivery{queue: q, OutboxEntry: e, at: now}
		f, failed := q.failing[e.Entry]
		if failed {
			still[e.Entry] = f
		}
		if (!failed || !now.Before(f.again)) && !q.relay.has(d.place()) {
			list = append(list, d)
		}
	}
	q.failing = still
	return list
}

// relayAll publishes entries, removes those that were published, and gives how many.
func (q *Queue) relayAll(ctx context.Context, list []delivery) (removed int, err error) {
	errs := make([]error, len(list))
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(backstopWorkers, len(list)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = q.relay.publish(ctx, &list[i])
			}
		})
	}
	for i := range list {
		next <- i
	}
	close(next)
	workers.Wait()
	var done []string
	for i, d := range list {
		if errs[i] == nil || q.hopeless(ctx, d, errs[i]) {
			delete(q.failing, d.Entry)
			done = append(done, d.Entry)
		} else if ctx.Err() == nil {
			q.failed(ctx, d, errs[i])
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

// failed has an entry tried again later, and says so where it isn't the storage.
func (q *Queue) failed(ctx context.Context, d delivery, err error) {
	f, again := q.failing[d.Entry]
	if !again {
		f.wait = pace.NewBackoff()
	}
	if !again && !storageDown(err) {
		q.relay.log.ErrorContext(ctx, "an assignment can't be published", "queue", q.name, "ticket", d.TicketID, "match", d.MatchID, "error", err)
	}
	f.again = time.Now().Add(f.wait.NextBackOff())
	q.failing[d.Entry] = f
}

// hopeless tells whether an entry is given up: it can't be published as it is, and its channel is gone by now.
func (q *Queue) hopeless(ctx context.Context, d delivery, err error) bool {
	var told *fault.Error
	if !errors.As(err, &told) || (told.Kind != fault.Invalid && told.Kind != fault.TooLarge) || d.Age < q.relay.o.Keep {
		return false
	}
	q.relay.log.ErrorContext(ctx, "an assignment is given up", "queue", q.name, "ticket", d.TicketID, "match", d.MatchID, "error", err)
	return true
}

// storageDown reports whether an error is the storage's, and would be the same for any other assignment.
func storageDown(err error) bool {
	var told *fault.Error
	return errors.As(err, &told) && (told.Kind == fault.Unavailable || told.Kind == fault.StorageFull) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
