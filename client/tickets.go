package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// NewTicket is a ticket to create.
type NewTicket struct {
	Queue string // empty: the queue "default"
	ID    string // empty: the client makes one
	TicketSpec
	TTL time.Duration // how long it can be matched; 0: the queue's
}

// TicketSpec is the request of a player.
type TicketSpec = matchmaking.Spec

// SearchFields are the values that the filters of a queue's pools match.
type SearchFields = matchmaking.SearchFields

// Criterion is a range, with both ends, for a statistic of other tickets.
type Criterion = matchmaking.Criterion

// Statistic is a value of a ticket.
type Statistic = matchmaking.Statistic

// CreatedTicket is a ticket that was created, and where its assignment will be. If an API key created it, Token is for
// its player: a client with this token, WithToken, can call Ticket, AwaitAssignment and CancelTicket for this ticket,
// and nothing else.
type CreatedTicket = wire.CreatedTicket

// Ticket describes a ticket. MatchID and Assignment are set if its Status is TicketMatchFound.
type Ticket = wire.Ticket

// Assignment is the server that a player connects to, and the match.
type Assignment = matchmaking.Assignment

// Match is a match that was assigned.
type Match = wire.Match

// MatchedTicket is a ticket of a match.
type MatchedTicket = wire.MatchedTicket

// Statuses of tickets.
const (
	TicketSearching  = string(matchmaking.Searching)
	TicketPending    = string(matchmaking.Pending)
	TicketMatchFound = string(matchmaking.MatchFound)
	TicketCancelled  = string(matchmaking.Cancelled)
	TicketExpired    = string(matchmaking.Expired)
)

// CreateTicket creates a ticket, with its channel and the subscriber on it. It creates one ticket, even if the call is
// retried. If a ticket of the queue has the ID already, nothing is changed and that ticket is returned, whatever its
// status. Errors: ErrInvalidTicket, ErrInvalidBody, ErrNoQueue, ErrTicketExists, ErrTicketTooLarge, ErrQueueFull,
// ErrStorageFull, ErrUnavailable. After one of the last two, or without an answer, the ticket may exist: CancelTicket
// makes sure that it doesn't.
func (c *Client) CreateTicket(ctx context.Context, t NewTicket) (CreatedTicket, error) {
	if t.ID == "" {
		t.ID = id.New()
	}
	r := request{what: "create ticket " + t.ID, method: http.MethodPost, path: []string{"tickets"}}
	body, err := json.Marshal(wire.NewTicket{Queue: t.Queue, ID: t.ID, Spec: t.TicketSpec, TTL: wire.TTL(t.TTL)})
	if err != nil {
		return CreatedTicket{}, fmt.Errorf("%s: %w", r.what, err)
	}
	r.body = body
	var created CreatedTicket
	_, err = c.call(ctx, r, &created)
	return created, err
}

// Ticket returns a ticket. One that has ended can be read for the time that its queue keeps it. Errors: ErrNoTicket,
// ErrUnavailable.
func (c *Client) Ticket(ctx context.Context, id string) (Ticket, error) {
	var t Ticket
	r := request{what: "get ticket " + id, method: http.MethodGet, path: []string{"tickets", id}}
	_, err := c.call(ctx, r, &t)
	return t, err
}

// CancelTicket cancels a ticket, and ends AwaitAssignment for it. It succeeds if the ticket does not exist. Errors:
// ErrTicketMatched, if it has or will have an assignment; ErrUnavailable.
func (c *Client) CancelTicket(ctx context.Context, id string) error {
	r := request{what: "cancel ticket " + id, method: http.MethodDelete, path: []string{"tickets", id}}
	_, err := c.call(ctx, r, nil)
	return err
}

// Match returns a match that was assigned, for as long as its queue keeps it. queue may be empty if the service made
// the match's ID, which then names it. Errors: ErrNoMatch, ErrInvalidQueue, ErrUnavailable.
func (c *Client) Match(ctx context.Context, queue, id string) (Match, error) {
	r := request{what: "get match " + id, method: http.MethodGet, path: []string{"matches", id}}
	if queue != "" {
		r.query = url.Values{"queue": {queue}}
	}
	var m Match
	_, err := c.call(ctx, r, &m)
	return m, err
}

const (
	// firstAssignmentWait is short, so that a ticket that has ended already is noticed soon.
	firstAssignmentWait = time.Second
	assignmentWait      = 20 * time.Second
)

// AwaitAssignment waits for a ticket's assignment until ctx ends. It may be called again after any error, and by
// several programs at the same time: each receives the assignment. It acknowledges the message, and returns the
// assignment even if that fails. Errors: ErrTicketCancelled, ErrTicketExpired, ErrNoTicket, that of ctx,
// ErrUnavailable.
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
		// The answer is early if the service shuts down or the subscriber was removed.
		if !pace.Sleep(ctx, emptyPause-time.Since(asked)) {
			return Assignment{}, ended(ctx)
		}
		// to see soon that it has expired
		wait = min(max(time.Until(t.ExpireTime), firstAssignmentWait), assignmentWait)
	}
}

// fetchAssignment waits for the message with a ticket's assignment.
func (c *Client) fetchAssignment(ctx context.Context, id string, wait time.Duration) (a Assignment, found bool,
	err error) {
	name := matchmaking.ChannelOf(id)
	d, err := c.Next(ctx, name, matchmaking.Subscriber, "", FetchOptions{Wait: wait})
	if err != nil {
		return Assignment{}, false, err
	}
	for i := range d.Messages {
		a, found := assignmentIn(&d.Messages[i], id)
		if !found {
			continue
		}
		_ = c.Ack(ctx, name, matchmaking.Subscriber, d.ReceiptHandle) // without it the message is only delivered again
		return a, true, nil
	}
	return Assignment{}, false, nil
}

// assignmentIn returns the ticket's assignment in a message, or false if the message is something else.
func assignmentIn(m *Message, ticket string) (a Assignment, found bool) {
	match, ok := strings.CutPrefix(m.ID, matchmaking.MessagePrefix)
	if !ok || json.Unmarshal(m.Content, &a) != nil || a.MatchID != match || a.TicketID != ticket {
		return Assignment{}, false
	}
	return a, true
}
