package matchmaking

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
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

// delivery is an assignment that is to be published.
type delivery struct {
	queue *queueMetrics
	OutboxEntry
	at time.Time // when it was that old
}

// place is where a delivery stands.
type place struct{ queue, entry string }

func (d *delivery) place() place { return place{queue: d.queue.name, entry: d.Entry} }

// relay publishes assignments on their tickets' channels, and then removes them from the outbox:
//
//	director ──► offer ──► workers ──► published ──► Delivered
//	                          ▲                          ▲
//	outbox ──► backstop ──────┴─ (as old as RelayAge) ───┘
//
// What offer can't take, what fails, and what another server left are the backstop's. An entry is removed only after
// it was published, and the message's ID makes a repeat harmless, so nothing is lost or seen twice wherever a relay
// dies. run and close are called once each; the other methods by many goroutines, until close.
type relay struct {
	store     Store
	channels  Channels
	log       *slog.Logger
	intake    chan delivery
	published chan place

	mu     sync.Mutex
	inHand map[place]struct{} // offered and not yet removed from the outbox, or given up
}

func newRelay(store Store, channels Channels, log *slog.Logger) *relay {
	return &relay{
		store: store, channels: channels, log: log,
		intake: make(chan delivery, relayBacklog), published: make(chan place, relayWorkers),
		inHand: map[place]struct{}{},
	}
}

// offer hands assignments over that were made just now. It doesn't wait: those that there is no room for are left to
// the backstop.
func (r *relay) offer(list []delivery) {
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
func (r *relay) has(p place) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, has := r.inHand[p]
	return has
}

// drop gives entries out of hand.
func (r *relay) drop(places ...place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range places {
		delete(r.inHand, p)
	}
}

// close ends the intake: nobody may offer any more. run then publishes what is in hand, and ends.
func (r *relay) close() { close(r.intake) }

// run publishes what is offered until close, with ctx, which ends what takes too long then.
func (r *relay) run(ctx context.Context) {
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
func (r *relay) deliver(ctx context.Context, d *delivery) {
	if err := r.publish(ctx, d); err != nil {
		r.drop(d.place())
		return
	}
	r.published <- d.place()
}

// publish publishes an assignment, unless another ticket has its ticket's ID by now.
func (r *relay) publish(ctx context.Context, d *delivery) error {
	err := r.publishIn(ctx, d, d.Epoch)
	if errors.Is(err, channel.ErrLaterLife) {
		var life channel.Life
		var over bool
		if life, over, err = r.laterLife(ctx, d); over {
			r.log.WarnContext(ctx, "dropped an assignment whose ticket is over and whose ID another ticket has", "queue", d.queue.name, "ticket", d.TicketID, "match", d.MatchID)
			return nil
		}
		if err == nil { // the channel was lost, and opened anew for the same ticket
			err = r.publishIn(ctx, d, life.Epoch)
		}
	}
	if err != nil {
		return fmt.Errorf("publish the assignment of ticket %s: %w", d.TicketID, err)
	}
	d.queue.relayLag.Observe((d.Age + time.Since(d.at)).Seconds())
	return nil
}

func (r *relay) publishIn(ctx context.Context, d *delivery, epoch ulid.ULID) error {
	draft := channel.Draft{ID: MessagePrefix + d.MatchID, Content: d.Content}
	_, err := r.channels.PublishIn(ctx, ChannelOf(d.TicketID), epoch, []channel.Draft{draft})
	return err
}

// laterLife returns the life of the channel of an assignment's ticket, and whether that is another ticket's. While the
// ticket is there no other one of its queue can have its ID.
func (r *relay) laterLife(ctx context.Context, d *delivery) (life channel.Life, over bool, err error) {
	life, err = r.channels.Life(ctx, ChannelOf(d.TicketID))
	if err != nil || life.Label != d.queue.name {
		return life, err == nil, err
	}
	t, err := r.store.Ticket(ctx, d.queue.name, d.TicketID)
	if errors.Is(err, ErrNoTicket) {
		return life, true, nil
	}
	return life, err == nil && t.Epoch != d.Epoch, err
}

// collect removes published entries from the outbox, in batches.
func (r *relay) collect(ctx context.Context) {
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
func (r *relay) remove(ctx context.Context, queue string, batch []place) {
	entries := make([]string, len(batch))
	for i, p := range batch {
		entries[i] = p.entry
	}
	err := r.store.Delivered(ctx, queue, entries)
	if err != nil && ctx.Err() == nil {
		r.log.DebugContext(ctx, "published assignments are still in the outbox", "queue", queue, "entries", len(entries), "error", err)
	}
	r.drop(batch...)
}
