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
	"github.com/tidemark-dev/tidemark/internal/pace"
	"github.com/tidemark-dev/tidemark/internal/strictjson"
)

// NewTicket is a ticket to create.
type NewTicket struct {
	Queue string // empty: the queue "default"
	ID    string // empty: the client makes one
	TicketSpec
	TTL time.Duration // how long it can be matched; 0: the queue's
}

// TicketSpec is the request of a player.
type TicketSpec struct {
	SearchFields SearchFields `json:"searchFields,omitzero"`
	// Criteria select the tickets that this one accepts, by their statistics: for each name, one of the criteria with
	// that name must hold.
	Criteria   []Criterion `json:"criteria,omitempty"`
	Statistics []Statistic `json:"statistics,omitempty"` // for the criteria of other tickets
	NumTeams   int         `json:"numTeams,omitempty"`   // of the match; 0: the queue's
	TeamSize   int         `json:"teamSize,omitempty"`   // in players, of the match; 0: the queue's
	Players    int         `json:"players,omitempty"`    // number of players of the ticket: a party; 0: one
	// Extensions and PersistentField are the caller's own JSON values, by name.
	Extensions      map[string]json.RawMessage `json:"extensions,omitempty"`
	PersistentField map[string]json.RawMessage `json:"persistentField,omitempty"`
}

// SearchFields are the values that the filters of a queue's pools match.
type SearchFields struct {
	Tags       []string          `json:"tags,omitempty"`
	DoubleArgs Doubles           `json:"doubleArgs,omitempty"`
	StringArgs map[string]string `json:"stringArgs,omitempty"`
}

// Doubles are numbers by name. They may be NaN or infinite, which JSON has as the strings "NaN", "Infinity" and
// "-Infinity".
type Doubles map[string]float64

// MarshalJSON encodes the numbers.
func (d Doubles) MarshalJSON() ([]byte, error) { return strictjson.Doubles(d).MarshalJSON() }

// UnmarshalJSON decodes what MarshalJSON encodes.
func (d *Doubles) UnmarshalJSON(text []byte) error {
	return (*strictjson.Doubles)(d).UnmarshalJSON(text)
}

// Criterion is a range, with both ends, for a statistic of other tickets.
type Criterion struct {
	Name     string  `json:"name"`
	MinValue float64 `json:"minValue"`
	MaxValue float64 `json:"maxValue"`
}

// Statistic is a value of a ticket.
type Statistic struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// CreatedTicket is a ticket that was created, and where its assignment will be. If an API key created it, Token is for
// its player: a client with this token, WithToken, can call Ticket, AwaitAssignment and CancelTicket for this ticket,
// and nothing else.
type CreatedTicket struct {
	ID         string    `json:"id"`
	Queue      string    `json:"queue"`
	Status     string    `json:"status"`     // TicketSearching, unless the ticket existed
	CreateTime time.Time `json:"createTime"` // Redis time, to the microsecond
	// Channel is the channel on which the assignment is published. It and the next three are empty if the ticket has none.
	Channel     string `json:"channel,omitempty"`
	Subscriber  string `json:"subscriber,omitempty"`  // of the channel, created with it
	ChannelURL  string `json:"channelUrl,omitempty"`  // path of the channel's description
	MessagesURL string `json:"messagesUrl,omitempty"` // path to fetch the assignment from
	// Token is a credential for the ticket's player: it reads and cancels this ticket, and fetches its assignment, and
	// nothing else. Empty: the service is open, or the ticket is the user's own.
	Token string `json:"token,omitempty"`
}

// Ticket describes a ticket. MatchID and Assignment are set if its Status is TicketMatchFound.
type Ticket struct {
	CreatedTicket
	ExpireTime time.Time `json:"expireTime"` // Redis time, after which it can't be matched; a heartbeat moves it
	TTLMillis  int64     `json:"ttlMs"`      // from its creation, or from its last heartbeat if the queue asks for them
	LifeMillis int64     `json:"lifeMs"`     // from its creation, whatever its heartbeats
	TicketSpec
	MatchID    string      `json:"matchId,omitempty"`
	Assignment *Assignment `json:"assignment,omitempty"`
}

// Assignment is the server that a player connects to, and the match.
type Assignment struct {
	TicketID   string                     `json:"ticketId"`
	MatchID    string                     `json:"matchId"`
	Queue      string                     `json:"queue"`
	Connection string                     `json:"connection"`
	Team       int                        `json:"team"`                // counted from 0
	Teammates  []string                   `json:"teammates,omitempty"` // other tickets of the team, if revealed
	Opponents  []string                   `json:"opponents,omitempty"` // tickets of the other teams, if revealed
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
}

// Match is a match that was assigned.
type Match struct {
	ID         string                     `json:"id"`
	Queue      string                     `json:"queue"`
	AssignTime time.Time                  `json:"assignTime"` // Redis time, to the microsecond
	Connection string                     `json:"connection"`
	Teams      [][]MatchedTicket          `json:"teams"`                // in order, which assignments count from 0
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"` // as in its assignments
}

// MatchedTicket is a ticket of a match.
type MatchedTicket struct {
	ID      string `json:"id"`
	Players int    `json:"players"` // how many players it stands for
}

// Statuses of tickets.
const (
	TicketSearching  = "SEARCHING"   // it waits
	TicketPending    = "PENDING"     // a director holds it for a match
	TicketMatchFound = "MATCH_FOUND" // it is assigned
	TicketCancelled  = "CANCELLED"
	TicketExpired    = "EXPIRED"
)

// The channel of a ticket, and the message with its assignment.
const (
	ticketChannelPrefix     = "ticket." // followed by the ticket's ID
	ticketSubscriber        = "player"
	assignmentMessagePrefix = "assignment-" // followed by the match's ID
)

type ticketRequest struct {
	Queue string `json:"queue,omitempty"`
	ID    string `json:"id,omitempty"`
	TTL   string `json:"ttl,omitempty"`
	TicketSpec
}

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
	body, err := json.Marshal(ticketRequest{Queue: t.Queue, ID: t.ID, TicketSpec: t.TicketSpec, TTL: durationText(t.TTL)})
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
	name := ticketChannelPrefix + id
	d, err := c.Next(ctx, name, ticketSubscriber, "", FetchOptions{Wait: wait})
	if err != nil {
		return Assignment{}, false, err
	}
	for i := range d.Messages {
		a, found := assignmentIn(&d.Messages[i], id)
		if !found {
			continue
		}
		_ = c.Ack(ctx, name, ticketSubscriber, d.ReceiptHandle) // without it the message is only delivered again
		return a, true, nil
	}
	return Assignment{}, false, nil
}

// assignmentIn returns the ticket's assignment in a message, or false if the message is something else.
func assignmentIn(m *Message, ticket string) (a Assignment, found bool) {
	match, ok := strings.CutPrefix(m.ID, assignmentMessagePrefix)
	if !ok || json.Unmarshal(m.Content, &a) != nil || a.MatchID != match || a.TicketID != ticket {
		return Assignment{}, false
	}
	return a, true
}
