package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/wire"
)

// NewTicket is a ticket to make.
type NewTicket struct {
	Queue string // empty: the queue "default"
	ID    string // empty: the client makes one
	TicketSpec
	TTL time.Duration // how long it can be matched at most; 0: as the queue has it
}

// TicketSpec is what a player asks for.
type TicketSpec = wire.TicketSpec

// SearchFields are what a queue's pools look at.
type SearchFields = wire.SearchFields

// Criterion is a range that a statistic of another ticket must be in, both ends included.
type Criterion = wire.Criterion

// Statistic is a value of a ticket.
type Statistic = wire.Statistic

// CreatedTicket is a ticket that was made, and where its assignment comes.
type CreatedTicket = wire.CreatedTicket

// Ticket is all that is known of a ticket. MatchID and Assignment are there where its Status is TicketMatchFound.
type Ticket = wire.Ticket

// Assignment is what a player gets: where to play, and with whom.
type Assignment = wire.Assignment

// Statuses of tickets.
const (
	TicketSearching  = wire.TicketSearching
	TicketPending    = wire.TicketPending
	TicketMatchFound = wire.TicketMatchFound
	TicketCancelled  = wire.TicketCancelled
	TicketExpired    = wire.TicketExpired
)

// CreateTicket makes a ticket, with its channel and the subscriber on it. However often it has to try, there is one
// ticket. An ID that a ticket of the queue has already changes nothing and gives that ticket, whatever its status.
// Errors: ErrInvalidTicket, ErrInvalidBody, ErrNoQueue, ErrTicketExists, ErrTicketTooLarge, ErrQueueFull,
// ErrStorageFull, ErrUnavailable. Whether there is a ticket after an error like the last ones isn't known: CancelTicket
// makes sure that there is none.
func (c *Client) CreateTicket(ctx context.Context, t NewTicket) (CreatedTicket, error) {
	if t.ID == "" {
		t.ID = id.New()
	}
	r := request{what: "create ticket " + t.ID, method: http.MethodPost, path: []string{"tickets"}}
	body, err := json.Marshal(wire.NewTicket{Queue: t.Queue, ID: t.ID, TicketSpec: t.TicketSpec, TTL: wire.TTL(t.TTL)})
	if err != nil {
		return CreatedTicket{}, fmt.Errorf("%s: %w", r.what, err)
	}
	r.body = body
	var created CreatedTicket
	_, err = c.call(ctx, r, &created)
	return created, err
}

// Ticket tells of a ticket. One that has ended can be read for a while, as its queue has it. Errors: ErrNoTicket,
// ErrUnavailable.
func (c *Client) Ticket(ctx context.Context, id string) (Ticket, error) {
	var t Ticket
	r := request{what: "look at ticket " + id, method: http.MethodGet, path: []string{"tickets", id}}
	_, err := c.call(ctx, r, &t)
	return t, err
}

// CancelTicket takes a ticket out of its queue, and ends AwaitAssignment for it. It succeeds too where there was none.
// Errors: ErrTicketMatched, where there is or will be an assignment; ErrUnavailable.
func (c *Client) CancelTicket(ctx context.Context, id string) error {
	r := request{what: "cancel ticket " + id, method: http.MethodDelete, path: []string{"tickets", id}}
	_, err := c.call(ctx, r, nil)
	return err
}

const (
	// firstAssignmentWait is short, so that a ticket that ended before is found out soon.
	firstAssignmentWait = time.Second
	assignmentWait      = 20 * time.Second
)

// AwaitAssignment waits for a ticket's assignment until ctx ends. It may be called again after any error, and by
// several programs at the same time: each gets the assignment. It acknowledges the message when it has read it; where
// that fails the assignment is given all the same. Errors: ErrTicketCancelled, ErrTicketExpired, ErrNoTicket, that of
// ctx, ErrUnavailable.
func (c *Client) AwaitAssignment(ctx context.Context, id string) (Assignment, error) {
	a, err := c.awaitAssignment(ctx, id)
	if err != nil {
		return Assignment{}, fmt.Errorf("await the assignment of ticket %s: %w", id, err)
	}
	return a, nil
}

func (c *Client) awaitAssignment(ctx context.Context, id string) (Assignment, error) {
	for wait := firstAssignmentWait; ; {
		asked := time.Now()
		a, found, err := c.fetchAssignment(ctx, id, wait)
		if err != nil && !errors.Is(err, ErrNoSubscriber) || found {
			return a, err
		}
		t, err := c.Ticket(ctx, id)
		switch {
		case err != nil:
			return Assignment{}, err
		case t.Assignment != nil:
			return *t.Assignment, nil
		case t.Status == TicketCancelled:
			return Assignment{}, ErrTicketCancelled
		case t.Status == TicketExpired:
			return Assignment{}, ErrTicketExpired
		}
		// Answers come early while the service shuts down, and where somebody has removed the subscriber.
		if err := sleep(ctx, emptyPause-time.Since(asked)); err != nil {
			return Assignment{}, ended(ctx)
		}
		wait = min(max(time.Until(t.ExpireTime), firstAssignmentWait), assignmentWait) // not long past its end
	}
}

// fetchAssignment waits for the message with a ticket's assignment.
func (c *Client) fetchAssignment(ctx context.Context, id string, wait time.Duration) (a Assignment, found bool, err error) {
	name := wire.TicketChannelPrefix + id
	d, err := c.Next(ctx, name, wire.TicketSubscriber, "", FetchOptions{Wait: wait})
	if err != nil {
		return Assignment{}, false, err
	}
	for i := range d.Messages {
		a, found := assignmentIn(&d.Messages[i], id)
		if !found {
			continue
		}
		_ = c.Ack(ctx, name, wire.TicketSubscriber, d.ReceiptHandle) // it would only come again
		return a, true, nil
	}
	return Assignment{}, false, nil
}

// assignmentIn reads a ticket's assignment from a message; false: the message is something else.
func assignmentIn(m *Message, ticket string) (a Assignment, found bool) {
	match, ok := strings.CutPrefix(m.ID, wire.AssignmentMessagePrefix)
	if !ok || json.Unmarshal(m.Content, &a) != nil || a.MatchID != match || a.TicketID != ticket {
		return Assignment{}, false
	}
	return a, true
}
