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
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/watch"
)

// NewTicket is the ticket that Create creates.
type NewTicket struct {
	Queue string // empty: matchmaking.DefaultQueue
	ID    string // empty: the service makes one, by matchmaking.NewID
	Spec  matchmaking.Spec
	Owner string // Ticket.Owner
	// TTL is how long the ticket can be matched; zero: the queue's TicketTTL. In a queue with a heartbeat it stays in
	// the queue for one heartbeat at a time, renewed by Attend.
	TTL time.Duration
	// PersistentTTL is the life that the ticket asks for in its persistent_field, if TTL is zero: at most the queue's
	// TicketTTL.
	PersistentTTL time.Duration
	// ChannelLater leaves it to OpenChannel to make the ticket's channel. It has no effect with an ID.
	ChannelLater bool
}

// life returns how long the ticket can be matched.
func (n *NewTicket) life(d *matchmaking.Definition) time.Duration {
	most := d.TicketTTL.Std()
	return min(cmp.Or(n.TTL, n.PersistentTTL, most), most)
}

// Create creates a ticket, and its channel [matchmaking.ChannelOf] with the subscriber [matchmaking.Subscriber]. If the
// queue has a ticket with its ID, in whatever status, Create returns that one, and created is false. The channel begins
// a new life before the ticket exists: nothing that was published for an earlier ticket with the ID reaches this one.
// If it is unknown whether the ticket was created, it is removed in the background, for as long as it could live,
// unless Create is called for the same ID again, on any server. A ticket of another owner isn't returned: that is
// ErrTicketExists. See Token for what its player gets. Errors: ErrNoQueue, fault.SlugInvalidTicket,
// fault.SlugTicketTooLarge, ErrTicketExists, ErrQueueFull, and the store's.
func (s *Service) Create(ctx context.Context, n NewTicket) (t matchmaking.Ticket, created bool, err error) {
	n.Queue = cmp.Or(n.Queue, matchmaking.DefaultQueue)
	q, err := s.registry.lookup(ctx, n.Queue)
	if err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if err := n.check(&q.Definition); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if err := checkSize(s.o.Store.Size(&n.Spec), q.MaxTicketBytes); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if s.isFull(ctx, q, n.ID) {
		return matchmaking.Ticket{}, false, matchmaking.ErrQueueFull
	}
	var made *matchmaking.Ticket // the ticket is large: copies would be on the stack of each creation that waits
	if n.ID != "" {
		made, created, err = s.createNamed(ctx, q, &n)
	} else {
		made, created, err = s.createUnique(ctx, q, &n)
	}
	if err != nil {
		return matchmaking.Ticket{}, false, err
	}
	return *made, created, nil
}

// Token returns what lets a ticket's player reach this ticket, and nothing else, for the caller of Create; empty: the
// caller gets none.
func (s *Service) Token(ctx context.Context, t *matchmaking.Ticket) string {
	if s.o.Token == nil {
		return ""
	}
	return s.o.Token(ctx, t.ID, t.CreateTime)
}

// createUnique creates a ticket whose ID is never used again.
func (s *Service) createUnique(ctx context.Context, q *queue, n *NewTicket) (t *matchmaking.Ticket, created bool,
	err error) {
	n.ID = matchmaking.NewID(n.Queue)
	if !n.ChannelLater {
		if err := s.o.Channels.Open(ctx, n.ID); err != nil {
			return nil, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
		}
	}
	return s.create(ctx, q, n, ulid.ULID{})
}

// maxContention limits how often the creation of one ticket starts over because others create tickets with the same ID.
const maxContention = 16

var errContention = fault.ErrUnavailable.WithCause(
	errors.New("many requests create tickets with one ID at the same time"))

// createNamed creates a ticket with an ID that the caller has chosen. The ID belongs to a queue for one life of the
// ticket's channel, which ends only after that queue has promised that no ticket is created in it anymore.
func (s *Service) createNamed(ctx context.Context, q *queue, n *NewTicket) (t *matchmaking.Ticket, created bool,
	err error) {
	reservation := s.reservation(n, ulid.ULID{})
	wait := pace.NewBackoff()
	for range maxContention {
		owner, err := s.o.Lookup.Reserve(ctx, reservation)
		if err != nil {
			return nil, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
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
		case errors.Is(err, matchmaking.ErrUndone): // another request took it
			reservation = s.reservation(n, ulid.ULID{})
			if !pace.Sleep(ctx, wait.NextBackOff()) {
				return nil, false, err
			}
		default:
			return t, created, err
		}
	}
	return nil, false, fmt.Errorf("create ticket %s: %w", n.ID, errContention)
}

// reservation returns the request for a ticket's ID.
func (s *Service) reservation(n *NewTicket, replaces ulid.ULID) matchmaking.Reservation {
	return matchmaking.Reservation{
		TicketID: n.ID, Owner: matchmaking.Owner{Queue: n.Queue, Epoch: epochAfter(replaces)}, Replaces: replaces,
		TTL: s.o.ChannelTTL,
	}
}

// epochAfter returns a new epoch that is later than another one, even if this server's clock is behind.
func epochAfter(earlier ulid.ULID) ulid.ULID {
	return id.At(ulid.Time(max(ulid.Now(), earlier.Time()+1)))
}

// vacate returns ErrNoTicket when an ID that belongs to another queue is free. Errors: ErrTicketExists if that queue
// has a ticket with the ID.
func (s *Service) vacate(ctx context.Context, id string, owner matchmaking.Owner) error {
	exists, err := s.o.Store.Undo(ctx, owner.Queue, id, owner.Epoch.String())
	switch {
	case err != nil:
		return fmt.Errorf("create ticket %s: %w", id, err)
	case exists:
		return matchmaking.ErrTicketExists
	}
	return matchmaking.ErrNoTicket
}

// create creates a ticket whose channel is open, in the life with the epoch; zero: its ID is never used again.
func (s *Service) create(ctx context.Context, q *queue, n *NewTicket, epoch ulid.ULID) (t *matchmaking.Ticket,
	created bool, err error) {
	life := n.life(&q.Definition)
	ttl := life
	if q.Heartbeat > 0 {
		ttl = min(ttl, q.Heartbeat.Std())
	}
	attempt, asked := id.New(), time.Now()
	var expected watch.Expectation
	if epoch.IsZero() {
		expected = s.watches.Expect(n.Queue, n.ID)
	}
	made, created, err := s.o.Store.Create(ctx, matchmaking.CreateRequest{
		Ticket: matchmaking.Ticket{
			Queue: n.Queue, ID: n.ID, Epoch: epoch, Spec: n.Spec, Owner: n.Owner, TTL: ttl, Life: life,
		},
		Attempt: attempt, Listening: !n.ChannelLater, Keep: q.AssignmentTTL.Std(), MaxTickets: q.MaxTickets,
	})
	if err != nil {
		if errors.Is(err, matchmaking.ErrQueueFull) {
			q.setFull()
		}
		s.undoUnknown(createAttempt{
			Queue: n.Queue, ID: n.ID, Attempt: attempt, Until: time.Now().Add(max(ttl, matchmaking.UndoneFor)),
		}, err)
		return nil, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	if created {
		expected.Created(&made)
		s.o.Metrics.Created(n.Queue)
	}
	if err := s.own(n, &made, attempt); err != nil {
		return nil, false, err
	}
	s.owners.Add(&made, asked)
	return &made, created, nil
}

// own returns ErrTicketExists if the ticket that an attempt has found is another owner's. Then it doesn't belong to the
// attempt any more.
func (s *Service) own(n *NewTicket, t *matchmaking.Ticket, attempt string) error {
	if t.Owner == n.Owner {
		return nil
	}
	s.undo.Add(createAttempt{Queue: n.Queue, ID: n.ID, Attempt: attempt, Until: time.Now().Add(matchmaking.UndoneFor)})
	return fmt.Errorf("create ticket %s: %w", n.ID, matchmaking.ErrTicketExists)
}

// find returns the existing ticket for an attempt to create it. Errors: ErrNoTicket; then none is created in the life
// with the epoch.
func (s *Service) find(ctx context.Context, n *NewTicket, epoch ulid.ULID) (*matchmaking.Ticket, error) {
	attempt := id.New()
	t, err := s.o.Store.Find(ctx, matchmaking.CreateRequest{
		Ticket: matchmaking.Ticket{Queue: n.Queue, ID: n.ID, Epoch: epoch}, Attempt: attempt,
	})
	if err != nil {
		s.undoUnknown(createAttempt{
			Queue: n.Queue, ID: n.ID, Attempt: attempt, Until: time.Now().Add(matchmaking.UndoneFor),
		}, err)
		return nil, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	if err := s.own(n, &t, attempt); err != nil {
		return nil, err
	}
	return &t, nil
}

// undoUnknown undoes an attempt unless its error says that no ticket belongs to it.
func (s *Service) undoUnknown(a createAttempt, err error) {
	if !isRefusal(err) {
		s.undo.Add(a)
	}
}

// isRefusal reports whether an error of Store.Create or Find says that no ticket belongs to the attempt. After other
// errors that is unknown.
func isRefusal(err error) bool {
	if errors.Is(err, matchmaking.ErrUndone) || errors.Is(err, matchmaking.ErrNotSent) {
		return true
	}
	var told *fault.Error
	if !errors.As(err, &told) {
		return false
	}
	return told.Slug == fault.SlugQueueFull || told.Kind != fault.Unavailable && told.Kind != fault.Internal
}

// fullFor is how long isFull asks the storage after a queue was full.
const fullFor = time.Second

// isFull reports whether a queue that was full a moment ago still is, and has no ticket with the ID. It saves reserving
// a channel for each ticket that a flooded queue refuses. Creating the ticket decides.
func (s *Service) isFull(ctx context.Context, q *queue, id string) bool {
	if time.Now().UnixNano() > q.fullTill.Load() {
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
	q.setFull()
	return true
}

func (q *queue) setFull() { q.fullTill.Store(time.Now().Add(fullFor).UnixNano()) }
