package matchmaking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
)

// NewTicket is the ticket that Create makes.
type NewTicket struct {
	Queue string // empty: DefaultQueue
	ID    string // empty: the service makes a ULID
	Spec  Spec
	// TTL is how long the ticket can be matched; zero: as long as the queue says. In a queue with a heartbeat it lives for
	// a heartbeat at a time, and Attend renews it until it is as old as that.
	TTL time.Duration
}

// Create makes a ticket, and its channel [ChannelOf] with the subscriber [Subscriber]. Where the queue has one with its
// ID, in whatever status, that one is returned and created is false. The channel comes first, so that a ticket that can
// be matched has one, and it begins a new life: nothing that an earlier ticket of the ID was sent comes to this one. If
// it isn't known whether the ticket was made it is taken out behind the scenes, for as long as it could live, unless
// Create is called for the same ID again, at whichever server. Errors: ErrNoQueue, fault.SlugInvalidTicket,
// fault.SlugTicketTooLarge, ErrTicketExists, ErrQueueFull, and those of the channels and the store.
func (s *Service) Create(ctx context.Context, n NewTicket) (t Ticket, created bool, err error) {
	n.Queue = cmp.Or(n.Queue, DefaultQueue)
	q, err := s.queues.lookup(ctx, n.Queue)
	if err != nil {
		return Ticket{}, false, err
	}
	if err := n.check(q.Definition); err != nil {
		return Ticket{}, false, err
	}
	if s.noRoom(ctx, q, n.ID) {
		return Ticket{}, false, ErrQueueFull
	}
	if n.ID == "" {
		n.ID = newID()
		return s.createOnce(ctx, q, n)
	}
	return s.createNamed(ctx, q, n)
}

// createOnce makes a ticket whose ID no other ticket ever has.
func (s *Service) createOnce(ctx context.Context, q *queue, n NewTicket) (t Ticket, created bool, err error) {
	_, _, err = s.channels.Open(ctx, channel.Opening{Channel: ChannelOf(n.ID), Subscriber: Subscriber, Label: n.Queue})
	if err != nil {
		return Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	return s.create(ctx, q, n, ulid.ULID{})
}

// namedTries is how often the creation of one ticket begins anew because others create tickets under the same ID.
const namedTries = 16

var errContended = fault.ErrUnavailable.WithCause(errors.New("many create tickets under one ID at the same time"))

// createNamed makes a ticket under an ID of the caller's. The ID belongs to a queue for one life of the ticket's
// channel. That life ends only after the queue has promised that no ticket is made in it any more.
func (s *Service) createNamed(ctx context.Context, q *queue, n NewTicket) (t Ticket, created bool, err error) {
	opening := channel.Opening{Channel: ChannelOf(n.ID), Subscriber: Subscriber, Label: n.Queue}
	var wait backoff
	for range namedTries {
		life, begun, err := s.channels.Open(ctx, opening)
		if err != nil {
			return Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
		}
		switch {
		case begun:
			t, created, err = s.create(ctx, q, n, life.Epoch)
		case life.Label == n.Queue:
			t, err = s.find(ctx, n, life.Epoch)
		default:
			err = s.vacate(ctx, n.ID, life)
		}
		switch {
		case errors.Is(err, ErrNoTicket): // the ID is free
			opening.Replaces = life.Epoch
		case errors.Is(err, ErrUndone): // somebody else took it
			opening.Replaces = ulid.ULID{}
			if !pause(ctx, wait.next()) {
				return Ticket{}, false, err
			}
		default:
			return t, created, err
		}
	}
	return Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, errContended)
}

// vacate frees an ID that belongs to another queue: ErrNoTicket. Errors: ErrTicketExists, where that has a ticket.
func (s *Service) vacate(ctx context.Context, id string, life channel.Life) error {
	there, err := s.store.Undo(ctx, life.Label, id, life.Epoch.String())
	switch {
	case err != nil:
		return fmt.Errorf("create ticket %s: %w", id, err)
	case there:
		return ErrTicketExists
	}
	return ErrNoTicket
}

// fullMemory is how long a queue that was full is looked at first.
const fullMemory = time.Second

// noRoom tells whether a queue that was full a moment ago is so still, and has no ticket of this ID. So a queue that is
// flooded gets no channel for each ticket that it hasn't room for. It is a saving only: making the ticket decides.
func (s *Service) noRoom(ctx context.Context, q *queue, id string) bool {
	if time.Now().UnixNano() > q.wasFull.Load() {
		return false
	}
	if id != "" {
		if _, err := s.store.Ticket(ctx, q.Name, id); !errors.Is(err, ErrNoTicket) {
			return false
		}
	}
	state, err := s.store.Describe(ctx, q.Name, 0)
	if err != nil || state.Searching+state.Pending < q.MaxTickets {
		return false
	}
	q.noteFull()
	return true
}

func (q *queue) noteFull() { q.wasFull.Store(time.Now().Add(fullMemory).UnixNano()) }

// create makes a ticket whose channel is open, in the life with the epoch; zero: no other ticket ever has its ID.
func (s *Service) create(ctx context.Context, q *queue, n NewTicket, epoch ulid.ULID) (t Ticket, created bool, err error) {
	life := cmp.Or(n.TTL, q.TicketTTL.Std())
	ttl := life
	if q.Heartbeat > 0 {
		ttl = min(ttl, q.Heartbeat.Std())
	}
	attempt := newID()
	t, created, err = s.store.Create(ctx, CreateRequest{
		Queue: n.Queue, ID: n.ID, Attempt: attempt, Epoch: epoch,
		Spec: n.Spec, TTL: ttl, Life: life, Keep: q.AssignmentTTL.Std(), MaxTickets: q.MaxTickets,
	})
	if err != nil {
		if errors.Is(err, ErrQueueFull) {
			q.noteFull()
		}
		s.undoUnknown(ctx, undone{queue: n.Queue, id: n.ID, attempt: attempt, until: time.Now().Add(max(ttl, UndoneFor))}, err)
		return Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	if created {
		s.metrics.created.WithLabelValues(n.Queue).Inc()
	}
	return t, created, nil
}

// find finds the ticket for an attempt to make it. Errors: ErrNoTicket; then none is made in the life with the epoch.
func (s *Service) find(ctx context.Context, n NewTicket, epoch ulid.ULID) (Ticket, error) {
	attempt := newID()
	t, err := s.store.Find(ctx, CreateRequest{Queue: n.Queue, ID: n.ID, Attempt: attempt, Epoch: epoch})
	if err != nil {
		s.undoUnknown(ctx, undone{queue: n.Queue, id: n.ID, attempt: attempt, until: time.Now().Add(UndoneFor)}, err)
		return Ticket{}, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	return t, nil
}

// undoUnknown undoes an attempt whose error leaves it open whether there is a ticket that is the attempt's.
func (s *Service) undoUnknown(ctx context.Context, attempt undone, err error) {
	if !refused(err) {
		s.undo.add(ctx, attempt)
	}
}

// refused reports whether an error of Store.Create or Find says that no ticket is the attempt's. Others leave it open.
func refused(err error) bool {
	if errors.Is(err, ErrUndone) {
		return true
	}
	var told *fault.Error
	if !errors.As(err, &told) {
		return false
	}
	return told.Slug == fault.SlugQueueFull || told.Kind != fault.Unavailable && told.Kind != fault.Internal
}

// queueOf finds the queue of a ticket. Errors: ErrNoTicket and the channels'.
func (s *Service) queueOf(ctx context.Context, id string) (string, error) {
	if CheckTicketID(id) != nil {
		return "", ErrNoTicket
	}
	life, err := s.channels.Life(ctx, ChannelOf(id))
	switch {
	case errors.Is(err, channel.ErrNoChannel):
		return "", ErrNoTicket
	case err != nil:
		return "", fmt.Errorf("find the queue of ticket %s: %w", id, err)
	}
	return life.Label, nil
}

// Ticket reads a ticket. One that has ended is there for the queue's AssignmentTTL longer. Errors: ErrNoTicket and
// those of the channels and the store.
func (s *Service) Ticket(ctx context.Context, id string) (Ticket, error) {
	queue, err := s.queueOf(ctx, id)
	if err != nil {
		return Ticket{}, err
	}
	t, err := s.store.Ticket(ctx, queue, id)
	if err != nil {
		return Ticket{}, fmt.Errorf("read ticket %s: %w", id, err)
	}
	return t, nil
}

// Cancel takes a ticket out of its queue, and ends the fetches that wait on its channel. It succeeds for one that is
// cancelled, has expired, or never was. Errors: ErrTicketMatched, where it is assigned, and then nothing has changed;
// and those of the channels and the store, after which a repeat completes it.
func (s *Service) Cancel(ctx context.Context, id string) error {
	queue, err := s.queueOf(ctx, id)
	switch {
	case errors.Is(err, ErrNoTicket):
		return nil
	case err != nil:
		return err
	}
	keep := time.Duration(DefaultAssignmentTTL)
	if q := s.queues.known()[queue]; q != nil {
		keep = q.AssignmentTTL.Std()
	}
	if err := s.store.Cancel(ctx, CancelRequest{Queue: queue, ID: id, Keep: keep}); err != nil {
		return fmt.Errorf("cancel ticket %s: %w", id, err)
	}
	if s.queues.known()[queue] != nil { // metrics of deleted queues are gone
		s.metrics.cancelled.WithLabelValues(queue).Inc()
	}
	if err := s.channels.Unsubscribe(ctx, ChannelOf(id), Subscriber); err != nil {
		return fmt.Errorf("cancel ticket %s: %w", id, err)
	}
	return nil
}
