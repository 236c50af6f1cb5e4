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
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/internal/watch"
	"github.com/tidemark-dev/tidemark/internal/pace"
)

// NewTicket is the input of Create.
type NewTicket struct {
	Queue string // empty: matchmaking.DefaultQueue
	ID    string // empty: generated with matchmaking.NewID
	Spec  matchmaking.Spec
	Owner string // Ticket.Owner
	// TTL is the time during which the ticket can be matched; zero: the queue's TicketTTL. In a queue with a
	// heartbeat the ticket stays in the queue for one heartbeat at a time, renewed by Attend.
	TTL time.Duration
	// PersistentTTL is the life requested in the ticket's persistent_field, used if TTL is zero: at most the
	// queue's TicketTTL.
	PersistentTTL time.Duration
	// NoChannel means that the ticket has no channel, unless its queue says whether its tickets have one. It has no
	// effect with an ID.
	NoChannel bool
}

// channel reports whether the ticket has a channel.
func (n *NewTicket) channel(d *matchmaking.Definition) bool {
	return n.ID != "" || d.HasChannels() && (d.Channel != nil || !n.NoChannel)
}

// life returns the time during which the ticket can be matched.
func (n *NewTicket) life(d *matchmaking.Definition) time.Duration {
	maxLife := d.TicketTTL.Std()
	return min(cmp.Or(n.TTL, n.PersistentTTL, maxLife), maxLife)
}

// Create creates a ticket, and its channel [matchmaking.ChannelOf] with the subscriber [matchmaking.Subscriber], unless
// it has none: see [matchmaking.Definition]. If the queue has a ticket with its ID, in any status, Create returns that
// ticket with created false. The channel begins a new life before the ticket exists: messages for an earlier ticket
// with the ID are never delivered to this one. If it is unknown whether the ticket was created, it is removed in the
// background, for the length of its life, unless Create is called for the same ID again, on any server. A ticket of
// another owner isn't returned: the error is ErrTicketExists. See Token for the credential of its player. Errors:
// ErrNoQueue, fault.SlugInvalidTicket, fault.SlugTicketTooLarge, ErrTicketExists, ErrQueueFull, and the store's.
func (s *Service) Create(ctx context.Context, n NewTicket) (t matchmaking.Ticket, created bool, err error) {
	n.Queue = cmp.Or(n.Queue, matchmaking.DefaultQueue)
	q, err := s.registry.lookup(ctx, n.Queue)
	if err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if err := n.check(&q.Definition); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if err := checkSize(s.options.Store.Size(&n.Spec), q.MaxTicketBytes); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	if s.isFull(ctx, q, n.ID) {
		return matchmaking.Ticket{}, false, matchmaking.ErrQueueFull
	}
	var ticket *matchmaking.Ticket // the ticket is large: copies would be on the stack of each waiting creation
	n.NoChannel = !n.channel(&q.Definition)
	if n.ID != "" {
		ticket, created, err = s.createNamed(ctx, q, &n)
	} else {
		ticket, created, err = s.createUnique(ctx, q, &n)
	}
	if err != nil {
		return matchmaking.Ticket{}, false, err
	}
	return *ticket, created, nil
}

// Token returns, for the caller of Create, a credential that gives the ticket's player access to this ticket only;
// empty: the caller gets none.
func (s *Service) Token(ctx context.Context, t *matchmaking.Ticket) string {
	if s.options.Token == nil {
		return ""
	}
	return s.options.Token(ctx, t.ID, t.CreateTime)
}

// createUnique creates a ticket whose ID is never reused.
func (s *Service) createUnique(ctx context.Context, q *queue, n *NewTicket) (t *matchmaking.Ticket, created bool,
	err error) {
	n.ID = matchmaking.NewID(n.Queue)
	if !n.NoChannel {
		if err := s.options.Channels.Open(ctx, n.ID); err != nil {
			return nil, false, fmt.Errorf("create ticket %s: %w", n.ID, err)
		}
	}
	return s.create(ctx, q, n, ulid.ULID{})
}

// maxContention limits the restarts of a creation because of concurrent creations with the same ID.
const maxContention = 16

var errContention = fault.ErrUnavailable.WithCause(
	errors.New("many requests create tickets with one ID at the same time"))

// createNamed creates a ticket with a caller-chosen ID. The ID belongs to a queue for one life of the ticket's channel,
// which ends only after it is certain that no ticket can be created in that queue under it anymore.
func (s *Service) createNamed(ctx context.Context, q *queue, n *NewTicket) (t *matchmaking.Ticket, created bool,
	err error) {
	if q.TicketLife() > s.options.ChannelTTL {
		return nil, false, matchmaking.InvalidTicket("id",
			"tickets of the queue %s can't have IDs of their callers: they live longer than the channels of tickets, %s",
			q.Name, s.options.ChannelTTL)
	}
	reservation := s.reservation(n, ulid.ULID{})
	wait := pace.NewBackoff()
	for range maxContention {
		owner, err := s.options.Lookup.Reserve(ctx, reservation)
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
		TTL: s.options.ChannelTTL,
	}
}

// epochAfter returns a new epoch that is later than the given one, even if this server's clock is behind.
func epochAfter(earlier ulid.ULID) ulid.ULID {
	return id.At(ulid.Time(max(ulid.Now(), earlier.Time()+1)))
}

// vacate returns ErrNoTicket when an ID that belongs to another queue can be reused. Errors: ErrTicketExists if that
// queue has a ticket with the ID.
func (s *Service) vacate(ctx context.Context, id string, owner matchmaking.Owner) error {
	exists, err := s.options.Store.Vacate(ctx, owner.Queue, id, owner.Epoch)
	switch {
	case err != nil:
		return fmt.Errorf("create ticket %s: %w", id, err)
	case exists:
		return matchmaking.ErrTicketExists
	}
	return matchmaking.ErrNoTicket
}

// create creates a ticket whose channel is open, in the life with the epoch; zero: its ID is never reused.
func (s *Service) create(ctx context.Context, q *queue, n *NewTicket, epoch ulid.ULID) (t *matchmaking.Ticket,
	created bool, err error) {
	life := n.life(&q.Definition)
	ttl := life
	if q.Heartbeat > 0 {
		ttl = min(ttl, q.Heartbeat.Std())
	}
	attempt, started := id.New(), time.Now()
	var expected watch.Expectation
	if epoch.IsZero() {
		expected = s.watches.Expect(n.Queue, n.ID)
	}
	ticket, created, err := s.options.Store.Create(ctx, matchmaking.CreateRequest{
		Ticket: matchmaking.Ticket{
			Queue: n.Queue, ID: n.ID, Epoch: epoch, NoChannel: n.NoChannel, Spec: n.Spec, Owner: n.Owner, TTL: ttl, Life: life,
		},
		Attempt: attempt, Keep: q.AssignmentTTL.Std(), MaxTickets: q.MaxTickets,
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
		expected.Created(&ticket)
		s.options.Metrics.Created(n.Queue)
	}
	if err := s.checkOwner(n, &ticket, attempt); err != nil {
		return nil, false, err
	}
	s.owners.Add(&ticket, started)
	return &ticket, created, nil
}

// checkOwner returns ErrTicketExists if the ticket found by an attempt has another owner. The ticket then no longer
// belongs to the attempt.
func (s *Service) checkOwner(n *NewTicket, t *matchmaking.Ticket, attempt string) error {
	if t.Owner == n.Owner {
		return nil
	}
	s.undo.Add(createAttempt{Queue: n.Queue, ID: n.ID, Attempt: attempt, Until: time.Now().Add(matchmaking.UndoneFor)})
	return fmt.Errorf("create ticket %s: %w", n.ID, matchmaking.ErrTicketExists)
}

// find returns the existing ticket for an attempt to create it. Errors: ErrNoTicket; then none can be created in the
// life with the epoch.
func (s *Service) find(ctx context.Context, n *NewTicket, epoch ulid.ULID) (*matchmaking.Ticket, error) {
	attempt := id.New()
	t, err := s.options.Store.Find(ctx, matchmaking.CreateRequest{
		Ticket: matchmaking.Ticket{Queue: n.Queue, ID: n.ID, Epoch: epoch}, Attempt: attempt,
	})
	if err != nil {
		s.undoUnknown(createAttempt{
			Queue: n.Queue, ID: n.ID, Attempt: attempt, Until: time.Now().Add(matchmaking.UndoneFor),
		}, err)
		return nil, fmt.Errorf("create ticket %s: %w", n.ID, err)
	}
	if err := s.checkOwner(n, &t, attempt); err != nil {
		return nil, err
	}
	return &t, nil
}

// undoUnknown undoes an attempt unless its error shows that no ticket belongs to it.
func (s *Service) undoUnknown(a createAttempt, err error) {
	if !isRefusal(err) {
		s.undo.Add(a)
	}
}

// isRefusal reports whether an error of Store.Create or Find shows that no ticket belongs to the attempt. After other
// errors that is unknown.
func isRefusal(err error) bool {
	if errors.Is(err, matchmaking.ErrUndone) || errors.Is(err, matchmaking.ErrNotSent) {
		return true
	}
	var clientErr *fault.Error
	if !errors.As(err, &clientErr) {
		return false
	}
	return clientErr.Slug == fault.SlugQueueFull || clientErr.Kind != fault.Unavailable && clientErr.Kind != fault.Internal
}

// fullFor is the time for which isFull queries the storage after a queue was full.
const fullFor = time.Second

// isFull reports whether a queue that was full a moment ago still is, and has no ticket with the ID. It avoids
// reserving a channel for each ticket that a full queue refuses. The creation of the ticket remains authoritative.
func (s *Service) isFull(ctx context.Context, q *queue, id string) bool {
	if time.Now().UnixNano() > q.fullUntil.Load() {
		return false
	}
	if id != "" {
		if _, err := s.options.Store.Ticket(ctx, q.Name, id); !errors.Is(err, matchmaking.ErrNoTicket) {
			return false
		}
	}
	state, err := s.options.Store.Describe(ctx, q.Name, 0)
	if err != nil || state.Searching+state.Pending < q.MaxTickets {
		return false
	}
	q.setFull()
	return true
}

func (q *queue) setFull() { q.fullUntil.Store(time.Now().Add(fullFor).UnixNano()) }
