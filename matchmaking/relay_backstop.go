package matchmaking

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/fault"
)

const (
	backstopBatch   = 500 // entries that are read at once
	backstopWorkers = 32  // that are published at the same time
	// backstopOthers is how much rarer than the queue's director, and for how much older entries, other servers look.
	backstopOthers = 5
)

// backstop publishes what stands in a queue's outbox for too long: what a relay that died left, or could not publish.
// Its methods are called by one goroutine.
type backstop struct {
	*relay
	queue    *queue
	metrics  *queueMetrics
	age      time.Duration
	keep     time.Duration // entries that can't be published ever are dropped when they are as old
	directed func() bool   // this server directs the queue
	failing  map[string]failing
}

// failing is an entry that couldn't be published.
type failing struct {
	again time.Time
	wait  backoff
}

// run looks into the outbox every so often, until ctx ends.
func (b *backstop) run(ctx context.Context) {
	down := newOutage(b.log, "the outbox of queue "+b.queue.Name+" can't be relayed")
	age := b.age
	for pause(ctx, jitter(age)) {
		age = b.age
		if !b.directed() {
			age *= backstopOthers
		}
		down.report(ctx, b.pass(ctx, age))
	}
}

// pass publishes entries of an age or more until there are no others.
func (b *backstop) pass(ctx context.Context, age time.Duration) error {
	for ctx.Err() == nil {
		limit := backstopBatch + len(b.failing)
		entries, err := b.store.Outgoing(ctx, b.queue.Name, age, limit)
		if err != nil {
			return fmt.Errorf("read the outbox: %w", err)
		}
		removed, err := b.relayAll(ctx, b.due(entries))
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
func (b *backstop) due(entries []OutboxEntry) []delivery {
	now := time.Now()
	var list []delivery
	still := make(map[string]failing, len(b.failing))
	for _, e := range entries {
		d := delivery{queue: b.metrics, OutboxEntry: e, at: now}
		f, failed := b.failing[e.Entry]
		if failed {
			still[e.Entry] = f
		}
		if (!failed || !now.Before(f.again)) && !b.has(d.place()) {
			list = append(list, d)
		}
	}
	b.failing = still
	return list
}

// relayAll publishes entries, removes those that were published, and gives how many.
func (b *backstop) relayAll(ctx context.Context, list []delivery) (removed int, err error) {
	errs := make([]error, len(list))
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(backstopWorkers, len(list)) {
		workers.Go(func() {
			for i := range next {
				errs[i] = b.publish(ctx, &list[i])
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
		if errs[i] == nil || b.hopeless(ctx, d, errs[i]) {
			delete(b.failing, d.Entry)
			done = append(done, d.Entry)
		} else if ctx.Err() == nil {
			b.failed(ctx, d, errs[i])
		}
	}
	if len(done) == 0 {
		return 0, nil
	}
	if err := b.store.Delivered(ctx, b.queue.Name, done); err != nil {
		return 0, fmt.Errorf("remove published assignments from the outbox: %w", err)
	}
	return len(done), nil
}

// failed has an entry tried again later, and says so where it isn't the storage.
func (b *backstop) failed(ctx context.Context, d delivery, err error) {
	f := b.failing[d.Entry]
	if f.wait.failures == 0 && !storageDown(err) {
		b.log.ErrorContext(ctx, "an assignment can't be published", "queue", b.queue.Name, "ticket", d.TicketID, "match", d.MatchID, "error", err)
	}
	f.again = time.Now().Add(f.wait.next())
	b.failing[d.Entry] = f
}

// hopeless tells whether an entry is given up: it can't be published as it is, and its channel is gone by now.
func (b *backstop) hopeless(ctx context.Context, d delivery, err error) bool {
	var told *fault.Error
	if !errors.As(err, &told) || (told.Kind != fault.Invalid && told.Kind != fault.TooLarge) || d.Age < b.keep {
		return false
	}
	b.log.ErrorContext(ctx, "an assignment is given up", "queue", b.queue.Name, "ticket", d.TicketID, "match", d.MatchID, "error", err)
	return true
}

// storageDown reports whether an error is the storage's, and would be the same for any other assignment.
func storageDown(err error) bool {
	var told *fault.Error
	return errors.As(err, &told) && (told.Kind == fault.Unavailable || told.Kind == fault.StorageFull) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
