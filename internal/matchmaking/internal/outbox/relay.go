package outbox

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

const (
	// publishers is the number of concurrent batches; maxBatch and batchBytes limit the number and the bytes of the
	// assignments in a batch.
	publishers = 4
	maxBatch   = 64
	batchBytes = 1 << 20
	// maxHeld and heldBytes limit the number and the bytes of the assignments in memory. Further ones are left in
	// the outbox until there is room.
	maxHeld   = 2000
	heldBytes = 16 << 20
	// publishTime limits the publishing of one batch: an unresponsive node must not delay the channels of others.
	publishTime = 500 * time.Millisecond
	// removeBatch and removeDelay trigger the removal of published entries from the outbox: at that number of
	// entries, or that long after the first one.
	removeBatch = 200
	removeDelay = 5 * time.Millisecond
	// removeCalls is the number of concurrent calls to remove entries.
	removeCalls = 8
)

// Store is the part of the queues' store that a relay uses.
type Store interface {
	matchmaking.Outbox
	// Ticket is the method of matchmaking.Tickets.
	Ticket(ctx context.Context, queue, id string) (matchmaking.Ticket, error)
	// States is the method of matchmaking.AssignedFeed.
	States(ctx context.Context, queue string, ids []string) ([]matchmaking.TicketState, error)
}

// Metrics measures the deliveries of one queue. It may be used by many goroutines.
type Metrics interface {
	// Published records that an assignment of the given age was published.
	Published(age time.Duration)
}

// Options configures a Relay. All fields are required.
type Options struct {
	Store     Store
	Publisher matchmaking.Publisher
	Lookup    matchmaking.Lookup
	Logger    *slog.Logger
	Age       time.Duration // minimum age of an entry for the backstop to publish it
	Keep      time.Duration // minimum age of an entry to be dropped if it can never be published
}

// delivery is an assignment to be published.
type delivery struct {
	queue *Queue
	read  time.Time // time at which the entry had its Age
	matchmaking.OutboxEntry
}

// key identifies an entry of an outbox.
type key struct{ queue, entry string }

func (d *delivery) key() key { return key{queue: d.queue.name, entry: d.Entry} }

func (d *delivery) age(now time.Time) time.Duration { return d.Age + now.Sub(d.read) }

// Relay publishes assignments on the channels of their tickets, and then removes them from the outbox:
//
//	director ──► Offer ──┬──► held ──► publishers ──► published ──► removed
//	                     │                                             ▲
//	outbox ──► backstop ─┴─ (older than Age, or when there is room) ───┘
//
// A publisher takes held assignments in batches, and publishes each batch at once. Entries without room, failed
// entries, and those of other servers stay in the outbox for the backstop. An entry is removed only after it was
// published, and its message ID makes a repetition harmless. So no assignment is lost or received twice, wherever a
// relay fails. Run and Close are called once each, the other methods by many goroutines, until Close.
type Relay struct {
	options   Options
	log       *slog.Logger
	published chan []key

	mu      sync.Mutex
	arrived *sync.Cond      // held has grown, or closed is set
	held    []delivery      // not yet taken by a publisher
	pending map[key]int     // held or taken, and neither removed nor failed: the sizes of their contents
	bytes   int             // total of all pending entries
	unread  map[*Queue]bool // queues whose outboxes have further entries
	closed  bool
}

// New returns a relay.
func New(o Options) *Relay {
	r := &Relay{
		options: o, log: o.Logger, published: make(chan []key, publishers),
		pending: map[key]int{}, unread: map[*Queue]bool{},
	}
	r.arrived = sync.NewCond(&r.mu)
	return r
}

// offer holds the entries that aren't pending, as long as there is room.
func (r *Relay) offer(q *Queue, entries []matchmaking.OutboxEntry) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		d := delivery{queue: q, read: now, OutboxEntry: e}
		if _, again := r.pending[d.key()]; again {
			continue
		}
		if len(r.pending) >= maxHeld || r.bytes >= heldBytes {
			r.unread[q] = true
			break
		}
		r.pending[d.key()] = len(e.Content)
		r.bytes += len(e.Content)
		r.held = append(r.held, d)
	}
	for range min(publishers, (len(r.held)+maxBatch-1)/maxBatch) {
		r.arrived.Signal()
	}
}

// nextBatch moves held assignments to batch, up to its limits. It waits if nothing is held, and returns nothing after
// Close.
func (r *Relay) nextBatch(batch []delivery) []delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) == 0 && !r.closed {
		r.arrived.Wait()
	}
	bytes := 0
	for i := range r.held {
		bytes += len(r.held[i].Content)
		if len(batch) == maxBatch || len(batch) > 0 && bytes > batchBytes {
			break
		}
		batch = append(batch, r.held[i])
	}
	r.held = slices.Delete(r.held, 0, len(batch))
	return batch
}

// forget makes entries no longer pending. If enough room is free then, the outboxes with further entries are read.
func (r *Relay) forget(keys []key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		r.bytes -= r.pending[k]
		delete(r.pending, k)
	}
	r.triggerReads()
}

// scheduleRead schedules a read of a queue's outbox, which has further entries, for when enough room is free.
func (r *Relay) scheduleRead(q *Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread[q] = true
	r.triggerReads()
}

// pendingOf returns the pending entries of a queue's outbox.
func (r *Relay) pendingOf(queue string) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := map[string]bool{}
	for k := range r.pending {
		if k.queue == queue {
			pending[k.entry] = true
		}
	}
	return pending
}

// triggerReads triggers reads of the outboxes with further entries if enough room is free. The lock is held.
func (r *Relay) triggerReads() {
	if len(r.pending) > maxHeld/2 || r.bytes > heldBytes/2 {
		return
	}
	for q := range r.unread {
		delete(r.unread, q)
		pace.Signal(q.readMore)
	}
}

// Close ends the offering of assignments. Run then publishes the held ones, and returns.
func (r *Relay) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.arrived.Broadcast()
}

// Run publishes offered assignments until Close. After ctx ends, publishing fails.
func (r *Relay) Run(ctx context.Context) {
	var publishing, removing sync.WaitGroup
	for range publishers {
		publishing.Go(func() { r.publish(ctx) })
	}
	removing.Go(func() { r.removePublished(ctx) })
	publishing.Wait()
	close(r.published)
	removing.Wait()
}

// publish publishes one batch after the other, until Close.
func (r *Relay) publish(ctx context.Context) {
	batch, entries := make([]delivery, 0, maxBatch), make([]matchmaking.OutboxEntry, 0, maxBatch)
	for {
		clear(batch)
		if batch = r.nextBatch(batch[:0]); len(batch) == 0 {
			return
		}
		entries = entries[:0]
		for i := range batch {
			entries = append(entries, batch[i].OutboxEntry)
		}
		limited, cancel := context.WithTimeout(ctx, publishTime)
		errs := r.options.Publisher.Publish(limited, entries)
		cancel()
		r.settle(ctx, batch, errs)
	}
}

// settle sends the published entries of a batch, and those that can never be published, to removePublished, and leaves
// the others to the backstop.
func (r *Relay) settle(ctx context.Context, batch []delivery, errs []error) {
	now := time.Now()
	done := make([]key, 0, len(batch))
	var failed []key
	for i := range batch {
		d, err := &batch[i], errs[i]
		if errors.Is(err, matchmaking.ErrLaterTicket) {
			err = r.publishLater(ctx, d)
		}
		switch {
		case err == nil:
			d.queue.published(d.Entry, d.age(now))
			done = append(done, d.key())
		case errors.Is(err, errReassigned):
			done = append(done, d.key())
		case d.queue.isUndeliverable(d.age(now), err):
			r.log.ErrorContext(ctx, "dropped an assignment that cannot be published", "queue", d.queue.name, "ticket",
				d.TicketID, "match", d.MatchID, "error", err)
			done = append(done, d.key())
		default:
			d.queue.failed(ctx, d, err)
			failed = append(failed, d.key())
		}
	}
	if len(failed) > 0 {
		r.forget(failed)
	}
	if len(done) > 0 {
		r.published <- done
	}
}

// errReassigned is the error of an assignment if its ticket's ID now belongs to another ticket.
var errReassigned = errors.New("the ticket's ID belongs to another ticket")

// publishLater publishes an assignment whose channel has begun a later life. Errors: errReassigned.
func (r *Relay) publishLater(ctx context.Context, d *delivery) error {
	owner, reassigned, err := r.currentOwner(ctx, d)
	switch {
	case err != nil:
		return err
	case reassigned:
		r.log.WarnContext(ctx, "dropped the assignment of an earlier ticket with this ID", "queue", d.queue.name,
			"ticket", d.TicketID, "match", d.MatchID)
		return errReassigned
	}
	later := d.OutboxEntry // the channel was lost, and began a new life for the same ticket
	later.Epoch = owner.Epoch
	return r.options.Publisher.Publish(ctx, []matchmaking.OutboxEntry{later})[0]
}

// currentOwner returns the owner of a ticket's ID, and reports whether the ID belongs to another ticket. While the
// ticket exists, no other ticket of its queue can have its ID.
func (r *Relay) currentOwner(ctx context.Context, d *delivery) (owner matchmaking.Owner, reassigned bool, err error) {
	owner, err = r.options.Lookup.Owner(ctx, d.TicketID)
	if err != nil || owner.Queue != d.queue.name {
		return owner, err == nil, err
	}
	t, err := r.options.Store.Ticket(ctx, d.queue.name, d.TicketID)
	if errors.Is(err, matchmaking.ErrNoTicket) {
		return owner, true, nil
	}
	if err != nil || t.Epoch != d.Epoch {
		return owner, err == nil, err
	}
	// Ticket may have read a replica that lags
	states, err := r.options.Store.States(ctx, d.queue.name, []string{d.TicketID})
	return owner, err == nil && !states[0].Created.Equal(t.CreateTime), err
}

// removePublished removes published entries from the outbox, in batches, until published is closed.
func (r *Relay) removePublished(ctx context.Context) {
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, removeCalls)
	batches := map[string][]string{}
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
		case done, open := <-r.published:
			if !open {
				for queue := range batches {
					flush(queue)
				}
				return
			}
			if len(batches) == 0 {
				timer.Reset(removeDelay)
			}
			for _, k := range done {
				if batches[k.queue] = append(batches[k.queue], k.entry); len(batches[k.queue]) >= removeBatch {
					flush(k.queue)
				}
			}
		case <-timer.C:
			for queue := range batches {
				flush(queue)
			}
		}
	}
}

// remove removes published entries of one queue. If that fails, the backstop finds them and publishes them again.
func (r *Relay) remove(ctx context.Context, queue string, entries []string) {
	err := r.options.Store.Delivered(ctx, queue, entries)
	if err != nil && ctx.Err() == nil {
		r.log.DebugContext(ctx, "cannot remove published assignments from the outbox", "queue", queue, "entries",
			len(entries), "error", err)
	}
	keys := make([]key, len(entries))
	for i, e := range entries {
		keys[i] = key{queue: queue, entry: e}
	}
	r.forget(keys)
}
