package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/internal/pace"
)

// NewTicket is the ticket that Create makes.
type NewTicket struct {
	Queue string // empty: DefaultQueue
	ID    string // empty: the service makes a ULID
	Spec  matchmaking.Spec
	// TTL is how long the ticket can be matched; zero: as long as the queue says. In a queue with a heartbeat it lives for
	// a heartbeat at a time, and Attend renews it until it is as old as that.
	TTL time.Duration
}

// Create makes a ticket, and its channel [ChannelOf] with the subscriber [Subscriber]. Where the queue has one with its
// ID, in whatever status, that one is returned and created is false. The channel comes first, so that a ticket that can
// be matched has one, and it begins a new life: nothing that an earlier ticket of the ID was sent comes to this one. If
// it isn't known whether the ticket was made it is taken out behind the scenes, for as long as it could live, unless
// Create is called for the same ID again, at whichever server. Errors: ErrNoQueue, SlugInvalidTicket,
// SlugTicketTooLarge, ErrTicketExists, ErrQueueFull, and those of the channels and the store.
func (s *Service) Create(ctx context.Context, n NewTicket) (t matchmaking.Ticket, created bool, err error) {
	n.Queue = cmp.Or(n.Queue, matchmaking.DefaultQueue)
	q, err := s.queues.lookup(ctx, n.Queue)
	if err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if err := n.check(q.Definition); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if s.noRoom(ctx, q, n.ID) {
		return matchmaking.Ticket{}, false, matchmaking.ErrQueueFull
	}
	if n.ID == "" {
		n.ID = id.New()
		return s.createOnce(ctx, q, n)
	}
	return s.createNamed(ctx, q, n)
}

// createOnce makes a ticket whose ID no other ticket ever has.
func (s *Service) createOnce(ctx context.Context, q *queue, n NewTicket) (t matchmaking.Ticket, created bool, err error) {
	if _, err := s.o.Lookup.Reserve(ctx, s.reservation(n, ulid.ULID{})); err != nil {
		return matchmaking.Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	return s.create(ctx, q, n, ulid.ULID{})
}

// namedTries is how often the creation of one ticket begins anew because others create tickets under the same ID.
const namedTries = 16

var errContended = fault.ErrUnavailable.WithCause(errors.New("many create tickets under one ID at the same time"))

// createNamed makes a ticket under an ID of the caller's. The ID belongs to a queue for one life of the ticket's
// channel. That life ends only after the queue has promised that no ticket is made in it any more.
func (s *Service) createNamed(ctx context.Context, q *queue, n NewTicket) (t matchmaking.Ticket, created bool, err error) {
	reservation := s.reservation(n, ulid.ULID{})
	wait := pace.NewBackoff()
	for range namedTries {
		owner, err := s.o.Lookup.Reserve(ctx, reservation)
		if err != nil {
			return matchmaking.Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
		}
		switch {
		case owner.Epoch == reservation.Epoch:
			t, created, err = s.create(ctx, q, n, owner.Epoch)
		case owner.Queue == n.Queue:
			t, err = s.find(ctx, n, owner.Epoch)
		default:
			err = s.vacate(ctx, n.ID, owner)
		}
		switch {
		case errors.Is(err, matchmaking.ErrNoTicket): // the ID is free
			reservation = s.reservation(n, owner.Epoch)
		case errors.Is(err, matchmaking.ErrUndone): // somebody else took it
			reservation = s.reservation(n, ulid.ULID{})
			if !pace.Sleep(ctx, wait.NextBackOff()) {
				return matchmaking.Ticket{}, false, err
			}
		default:
			return t, created, err
		}
	}
	return matchmaking.Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, errContended)
}

// reservation returns the request for a new ticket's ID.
func (s *Service) reservation(n NewTicket, replaces ulid.ULID) matchmaking.Reservation {
	return matchmaking.Reservation{
		TicketID: n.ID, Owner: matchmaking.Owner{Queue: n.Queue, Epoch: matchmaking.EpochAfter(replaces)}, Replaces: replaces, TTL: s.o.ChannelTTL,
	}
}

// vacate frees an ID that belongs to another queue: ErrNoTicket. Errors: ErrTicketExists, where that has a ticket.
func (s *Service) vacate(ctx context.Context, id string, owner matchmaking.Owner) error {
	there, err := s.o.Store.Undo(ctx, owner.Queue, id, owner.Epoch.String())
	switch {
	case err != nil:
		return fmt.Errorf("create ticket %s: %w", id, err)
	case there:
		return matchmaking.ErrTicketExists
	}
	return matchmaking.ErrNoTicket
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
		if _, err := s.o.Store.Ticket(ctx, q.Name, id); !errors.Is(err, matchmaking.ErrNoTicket) {
			return false
		}
	}
	state, err := s.o.Store.Describe(ctx, q.Name, 0)
	if err != nil || state.Searching+state.Pending < q.MaxTickets {
		return false
	}
	q.noteFull()
	return true
}

func (q *queue) noteFull() { q.wasFull.Store(time.Now().Add(fullMemory).UnixNano()) }

// create makes a ticket whose channel is open, in the life with the epoch; zero: no other ticket ever has its ID.
func (s *Service) create(ctx context.Context, q *queue, n NewTicket, epoch ulid.ULID) (t matchmaking.Ticket, created bool, err error) {
	life := cmp.Or(n.TTL, q.TicketTTL.Std())
	ttl := life
	if q.Heartbeat > 0 {
		ttl = min(ttl, q.Heartbeat.Std())
	}
	attempt := id.New()
	t, created, err = s.o.Store.Create(ctx, matchmaking.CreateRequest{
		Queue: n.Queue, ID: n.ID, Attempt: attempt, Epoch: epoch,
		Spec: n.Spec, TTL: ttl, Life: life, Keep: q.AssignmentTTL.Std(), MaxTickets: q.MaxTickets,
	})
	if err != nil {
		if errors.Is(err, matchmaking.ErrQueueFull) {
			q.noteFull()
		}
		s.undoUnknown(ctx, undone{queue: n.Queue, id: n.ID, attempt: attempt, until: time.Now().Add(max(ttl, matchmaking.UndoneFor))}, err)
		return matchmaking.Ticket{}, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	if created {
		s.o.Metrics.Created(n.Queue)
	}
	return t, created, nil
}

// find finds the ticket for an attempt to make it. Errors: ErrNoTicket; then none is made in the life with the epoch.
func (s *Service) find(ctx context.Context, n NewTicket, epoch ulid.ULID) (matchmaking.Ticket, error) {
	attempt := id.New()
	t, err := s.o.Store.Find(ctx, matchmaking.CreateRequest{Queue: n.Queue, ID: n.ID, Attempt: attempt, Epoch: epoch})
	if err != nil {
		s.undoUnknown(ctx, undone{queue: n.Queue, id: n.ID, attempt: attempt, until: time.Now().Add(matchmaking.UndoneFor)}, err)
		return matchmaking.Ticket{}, fmt.Errorf("create ticket %s: %w", n.ID, err)
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
	if errors.Is(err, matchmaking.ErrUndone) {
		return true
	}
	var told *fault.Error
	if !errors.As(err, &told) {
		return false
	}
	return told.Slug == fault.SlugQueueFull || told.Kind != fault.Unavailable && told.Kind != fault.Internal
}

// queueOf returns the queue of a ticket. Errors: ErrNoTicket and the store's.
func (s *Service) queueOf(ctx context.Context, id string) (string, error) {
	if matchmaking.CheckTicketID(id) != nil {
		return "", matchmaking.ErrNoTicket
	}
	owner, err := s.o.Lookup.Owner(ctx, id)
	if err != nil {
		return "", fmt.Errorf("find the queue of ticket %s: %w", id, err)
	}
	return owner.Queue, nil
}

// Ticket reads a ticket. One that has ended is there for the queue's AssignmentTTL longer. Errors: ErrNoTicket and
// those of the channels and the store.
func (s *Service) Ticket(ctx context.Context, id string) (matchmaking.Ticket, error) {
	queue, err := s.queueOf(ctx, id)
	if err != nil {
		return matchmaking.Ticket{}, err
	}
	t, err := s.o.Store.Ticket(ctx, queue, id)
	if err != nil {
		return matchmaking.Ticket{}, fmt.Errorf("read ticket %s: %w", id, err)
	}
	return t, nil
}

// Cancel takes a ticket out of its queue, and ends the fetches that wait on its channel. It succeeds for one that is
// cancelled, has expired, or never was. Errors: ErrTicketMatched, where it is assigned, and then nothing has changed;
// and those of the channels and the store, after which a repeat completes it.
func (s *Service) Cancel(ctx context.Context, id string) error {
	queue, err := s.queueOf(ctx, id)
	switch {
	case errors.Is(err, matchmaking.ErrNoTicket):
		return nil
	case err != nil:
		return err
	}
	keep := time.Duration(matchmaking.DefaultAssignmentTTL)
	if q := s.queues.known()[queue]; q != nil {
		keep = q.AssignmentTTL.Std()
	}
	if err := s.o.Store.Cancel(ctx, matchmaking.CancelRequest{Queue: queue, ID: id, Keep: keep}); err != nil {
		return fmt.Errorf("cancel ticket %s: %w", id, err)
	}
	if s.queues.known()[queue] != nil { // metrics of deleted queues are gone
		s.o.Metrics.Cancelled(queue)
	}
	if err := s.o.Channels.Unsubscribe(ctx, id); err != nil {
		return fmt.Errorf("cancel ticket %s: %w", id, err)
	}
	return nil
}
