package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

const (
	// workers is how many assignments are published at the same time.
	workers = 256
	// maxOffered is how many assignments may wait for a worker. More are left to the backstop.
	maxOffered = 1 << 15
	// removeBatch and removeDelay are when published entries are removed from the outbox: when there are so many, or so
	// long after the first one.
	removeBatch = 200
	removeDelay = 5 * time.Millisecond
	// removeCalls is how many calls to remove entries are in progress at the same time.
	removeCalls = 8
)

// Store is what a relay needs of the queues' store.
type Store interface {
	matchmaking.Outbox
	// Ticket is a method of matchmaking.Tickets.
	Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
}

// Publisher publishes assignments on the channels of tickets.
type Publisher interface {
	// Publish publishes an assignment on its ticket's channel, in the life of the channel that has the epoch; zero: in any.
	// It may be repeated. Errors: matchmaking.ErrLaterTicket if a later life has begun.
	Publish(ctx context.Context, epoch ulid.ULID, a *matchmaking.OutboxEntry) error
}

// Metrics measures the deliveries of one queue. It may be used by many goroutines.
type Metrics interface {
	// Published records that an assignment of this age was published.
	Published(age time.Duration)
}

// Options configures a Relay. All fields are required.
type Options struct {
	Store     Store
	Publisher Publisher
	Lookup    matchmaking.Lookup
	Logger    *slog.Logger
	Age       time.Duration // how old an entry is before the backstop publishes it
	Keep      time.Duration // how old an entry is before it is dropped if it can never be published
}

// delivery is an assignment that is to be published.
type delivery struct {
	queue *Queue
	matchmaking.OutboxEntry
	read time.Time // when it had its Age
}

// key identifies an entry of an outbox.
type key struct{ queue, entry string }

func (d *delivery) key() key { return key{queue: d.queue.name, entry: d.Entry} }

// Relay publishes assignments on the channels of their tickets, and then removes them from the outbox:
//
//	director ──► Offer ──► workers ──► published ──► removed
//	                          ▲                         ▲
//	outbox ──► backstop ──────┴─ (older than Age) ──────┘
//
// The backstop publishes what Offer has no room for, what fails, and what another server left. An entry is removed only
// after it was published, and its message ID makes a repetition harmless. So nothing is lost or seen twice, wherever a
// relay dies. Run and Close are called once each, the other methods by many goroutines, until Close.
type Relay struct {
	o         Options
	log       *slog.Logger
	offered   chan delivery
	published chan key

	mu      sync.Mutex
	pending map[key]struct{} // offered, and neither removed nor failed
}

// New returns a relay.
func New(o Options) *Relay {
	return &Relay{
		o: o, log: o.Logger,
		offered: make(chan delivery, maxOffered), published: make(chan key, workers),
		pending: map[key]struct{}{},
	}
}

// offer adds deliveries, until there is no room for more.
func (r *Relay) offer(list []delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range list {
		select {
		case r.offered <- d:
			r.pending[d.key()] = struct{}{}
		default:
			return
		}
	}
}

func (r *Relay) isPending(k key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, pending := r.pending[k]
	return pending
}

// forget makes entries no longer pending.
func (r *Relay) forget(keys ...key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		delete(r.pending, k)
	}
}

// Close tells Run that nothing more is offered. Run then publishes what is pending, and returns.
func (r *Relay) Close() { close(r.offered) }

// Run publishes what is offered until Close. When ctx ends, publishing fails.
func (r *Relay) Run(ctx context.Context) {
	var publishing, removing sync.WaitGroup
	for range workers {
		publishing.Go(func() {
			for d := range r.offered {
				if r.publish(ctx, &d) == nil {
					r.published <- d.key()
				} else {
					r.forget(d.key()) // for the backstop
				}
			}
		})
	}
	removing.Go(func() { r.removePublished(ctx) })
	publishing.Wait()
	close(r.published)
	removing.Wait()
}

// publish publishes an assignment, unless its ticket's ID belongs to another ticket by now.
func (r *Relay) publish(ctx context.Context, d *delivery) error {
	err := r.o.Publisher.Publish(ctx, d.Epoch, &d.OutboxEntry)
	if errors.Is(err, matchmaking.ErrLaterTicket) {
		var owner matchmaking.Owner
		var over bool
		if owner, over, err = r.laterOwner(ctx, d); over {
			r.log.WarnContext(ctx, "dropped the assignment of an earlier ticket with this ID", "queue", d.queue.name, "ticket", d.TicketID, "match", d.MatchID)
			return nil
		}
		if err == nil { // the channel was lost, and began a new life for the same ticket
			err = r.o.Publisher.Publish(ctx, owner.Epoch, &d.OutboxEntry)
		}
	}
	if err != nil {
		return fmt.Errorf("publish the assignment of ticket %s: %w", d.TicketID, err)
	}
	d.queue.metrics.Published(d.Age + time.Since(d.read))
	return nil
}

// laterOwner returns the owner of a ticket's ID, and reports whether the ID belongs to another ticket. While the ticket
// exists, no other ticket of its queue can have its ID.
func (r *Relay) laterOwner(ctx context.Context, d *delivery) (owner matchmaking.Owner, over bool, err error) {
	owner, err = r.o.Lookup.Owner(ctx, d.TicketID)
	if err != nil || owner.Queue != d.queue.name {
		return owner, err == nil, err
	}
	t, err := r.o.Store.Ticket(ctx, d.queue.name, d.TicketID)
	if errors.Is(err, matchmaking.ErrNoTicket) {
		return owner, true, nil
	}
	return owner, err == nil && t.Epoch != d.Epoch, err
}

// removePublished removes published entries from the outbox, in batches, until published is closed.
func (r *Relay) removePublished(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, removeCalls)
	batches := map[string][]key{}
	flush := func(queue string) {
		batch := batches[queue]
		delete(batches, queue)
		slots <- struct{}{}
		calls.Go(func() {
			r.remove(ctx, queue, batch)
			<-slots
		})
	}
	timer := time.NewTimer(removeDelay)
	defer timer.Stop()
	for {
		select {
		case k, open := <-r.published:
			if !open {
				for queue := range batches {
					flush(queue)
				}
				return
			}
			if len(batches) == 0 {
				timer.Reset(removeDelay)
			}
			if batches[k.queue] = append(batches[k.queue], k); len(batches[k.queue]) >= removeBatch {
				flush(k.queue)
			}
		case <-timer.C:
			for queue := range batches {
				flush(queue)
			}
		}
	}
}

// remove removes published entries of one queue. If that fails, the backstop finds them and publishes them again.
func (r *Relay) remove(ctx context.Context, queue string, batch []key) {
	entries := make([]string, len(batch))
	for i, k := range batch {
		entries[i] = k.entry
	}
	err := r.o.Store.Delivered(ctx, queue, entries)
	if err != nil && ctx.Err() == nil {
		r.log.DebugContext(ctx, "cannot remove published assignments from the outbox", "queue", queue, "entries", len(entries), "error", err)
	}
	r.forget(batch...)
}
