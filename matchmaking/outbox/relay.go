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
	// relayWorkers is how many assignments are published at the same time.
	relayWorkers = 256
	// relayBacklog is how many assignments may wait for a worker. More are left to the backstop.
	relayBacklog = 1 << 15
	// deliveredBatch and deliveredDelay are when published entries are removed from the outbox: at so many, or so long
	// after the first.
	deliveredBatch = 200
	deliveredDelay = 5 * time.Millisecond
	// deliveredCalls is how many calls for that are made at the same time.
	deliveredCalls = 8
)

// Store is what a relay needs of the queues' store.
type Store interface {
	matchmaking.Outbox
	// Ticket is matchmaking.Tickets'.
	Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
}

// Publisher puts assignments on the channels of tickets.
type Publisher interface {
	// Publish puts an assignment on its ticket's channel, in the life of the channel that has the epoch; zero: in any.
	// It may be repeated. Errors: matchmaking.ErrLaterTicket, where a later life has begun.
	Publish(ctx context.Context, epoch ulid.ULID, a *matchmaking.OutboxEntry) error
}

// Metrics measures how a queue's assignments are carried. It may be used by many goroutines.
type Metrics interface {
	// Published is called for each assignment that was published, and how old it was.
	Published(age time.Duration)
}

// Options is what a Relay is made of. All of it is needed.
type Options struct {
	Store     Store
	Publisher Publisher
	Lookup    matchmaking.Lookup
	Logger    *slog.Logger
	// Age is how long an assignment stands in the outbox before a relay that doesn't know it publishes it.
	Age time.Duration
	// Keep is how long assignments are kept that can't be published ever.
	Keep time.Duration
}

// delivery is an assignment that is to be published.
type delivery struct {
	queue *Queue
	matchmaking.OutboxEntry
	at time.Time // when it was that old
}

// place is where a delivery stands.
type place struct{ queue, entry string }

func (d *delivery) place() place { return place{queue: d.queue.name, entry: d.Entry} }

// Relay publishes assignments on their tickets' channels, and then removes them from the outbox:
//
//	director ──► Offer ──► workers ──► published ──► Delivered
//	                          ▲                          ▲
//	outbox ──► backstop ──────┴─ (as old as Age) ────────┘
//
// What Offer can't take, what fails, and what another server left are the backstop's. An entry is removed only after
// it was published, and the message's ID makes a repeat harmless, so nothing is lost or seen twice wherever a relay
// dies. Run and Close are called once each; the other methods by many goroutines, until Close.
type Relay struct {
	o         Options
	log       *slog.Logger
	intake    chan delivery
	published chan place

	mu     sync.Mutex
	inHand map[place]struct{} // offered and not yet removed from the outbox, or given up
}

// New makes a relay.
func New(o Options) *Relay {
	return &Relay{
		o: o, log: o.Logger,
		intake: make(chan delivery, relayBacklog), published: make(chan place, relayWorkers),
		inHand: map[place]struct{}{},
	}
}

// offer hands assignments over that were made just now. It doesn't wait: those that there is no room for are left to
// the backstop.
func (r *Relay) offer(list []delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range list {
		select {
		case r.intake <- d:
			r.inHand[d.place()] = struct{}{}
		default:
			return
		}
	}
}

// has tells whether an entry is in hand.
func (r *Relay) has(p place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.inHand[p]
	return has
}

// drop gives entries out of hand.
func (r *Relay) drop(places ...place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range places {
		delete(r.inHand, p)
	}
}

// Close ends the intake: nobody may offer any more. Run then publishes what is in hand, and ends.
func (r *Relay) Close() { close(r.intake) }

// Run publishes what is offered until Close, with ctx, which ends what takes too long then.
func (r *Relay) Run(ctx context.Context) {
	var workers, collector sync.WaitGroup
	for range relayWorkers {
		workers.Go(func() {
			for d := range r.intake {
				r.deliver(ctx, &d)
			}
		})
	}
	collector.Go(func() { r.collect(ctx) })
	workers.Wait()
	close(r.published)
	collector.Wait()
}

// deliver publishes an assignment that is in hand. One that fails is left to the backstop.
func (r *Relay) deliver(ctx context.Context, d *delivery) {
	if err := r.publish(ctx, d); err != nil {
		r.drop(d.place())
		return
	}
	r.published <- d.place()
}

// publish publishes an assignment, unless another ticket has its ticket's ID by now.
func (r *Relay) publish(ctx context.Context, d *delivery) error {
	err := r.o.Publisher.Publish(ctx, d.Epoch, &d.OutboxEntry)
	if errors.Is(err, matchmaking.ErrLaterTicket) {
		var owner matchmaking.Owner
		var over bool
		if owner, over, err = r.laterOwner(ctx, d); over {
			r.log.WarnContext(ctx, "dropped an assignment whose ticket is over and whose ID another ticket has", "queue", d.queue.name, "ticket", d.TicketID, "match", d.MatchID)
			return nil
		}
		if err == nil { // the channel was lost, and opened anew for the same ticket
			err = r.o.Publisher.Publish(ctx, owner.Epoch, &d.OutboxEntry)
		}
	}
	if err != nil {
		return fmt.Errorf("publish the assignment of ticket %s: %w", d.TicketID, err)
	}
	d.queue.metrics.Published(d.Age + time.Since(d.at))
	return nil
}

// laterOwner returns the owner of the ID of an assignment's ticket, and whether that is another ticket's. While the
// ticket is there no other one of its queue can have its ID.
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

// collect removes published entries from the outbox, in batches.
func (r *Relay) collect(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	room := make(chan struct{}, deliveredCalls)
	batches := map[string][]place{}
	flush := func(queue string) {
		batch := batches[queue]
		delete(batches, queue)
		room <- struct{}{}
		calls.Go(func() {
			r.remove(ctx, queue, batch)
			<-room
		})
	}
	timer := time.NewTimer(deliveredDelay)
	defer timer.Stop()
	for {
		select {
		case p, open := <-r.published:
			if !open {
				for queue := range batches {
					flush(queue)
				}
				return
			}
			if len(batches) == 0 {
				timer.Reset(deliveredDelay)
			}
			if batches[p.queue] = append(batches[p.queue], p); len(batches[p.queue]) >= deliveredBatch {
				flush(p.queue)
			}
		case <-timer.C:
			for queue := range batches {
				flush(queue)
			}
		}
	}
}

// remove removes published entries of one queue. Where that fails the backstop finds them, and publishes them again.
func (r *Relay) remove(ctx context.Context, queue string, batch []place) {
	entries := make([]string, len(batch))
	for i, p := range batch {
		entries[i] = p.entry
	}
	err := r.o.Store.Delivered(ctx, queue, entries)
	if err != nil && ctx.Err() == nil {
		r.log.DebugContext(ctx, "published assignments are still in the outbox", "queue", queue, "entries", len(entries), "error", err)
	}
	r.drop(batch...)
}
