package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// Queue is a queue of tickets and its definition, without secrets.
type Queue struct {
	Name       string          `json:"queue"`
	Definition json.RawMessage `json:"definition"` // a JSON object, with its defaults filled in
}

// QueueDescription is a queue and its state. Waits is nil if no ticket was matched recently.
type QueueDescription struct {
	Queue
	Configured       bool         `json:"configured"` // part of the service's configuration: it can't be put or deleted
	Tickets          TicketCounts `json:"tickets"`
	Backfills        int          `json:"backfills,omitempty"` // of a queue that is directed by its user, now
	Outgoing         int          `json:"outgoing"`            // assignments that are not on their channels yet
	Conflicts        int64        `json:"conflicts"`           // matches that failed since the queue was last unused for a day
	OldestWaitMillis int64        `json:"oldestWaitMs"`        // of the tickets that can be matched now; 0 if there are none
	MatchRate        float64      `json:"matchRate"`           // matches a second, over the last minute
	Waits            *Waits       `json:"waitMs,omitempty"`    // of tickets that were matched recently; left out if there are none
	Waiting          *Waiting     `json:"waiting,omitempty"`   // if it was asked for
}

// TicketCounts counts a queue's tickets by status.
type TicketCounts struct {
	Searching  int   `json:"SEARCHING"`   // now
	Pending    int   `json:"PENDING"`     // now
	MatchFound int64 `json:"MATCH_FOUND"` // since the queue was last unused for a day; so are the next two
	Cancelled  int64 `json:"CANCELLED"`
	Expired    int64 `json:"EXPIRED"`
}

// Waits are percentiles of how long tickets waited for their match, in milliseconds.
type Waits struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
}

// Waiting lists the tickets that wait longest in a queue, with reasons.
type Waiting struct {
	Tickets    int                 `json:"tickets"`  // that wait
	Examined   int                 `json:"examined"` // of these, the oldest: all that follows is about them
	Waits      LongestWaits        `json:"waitMs"`
	Statistics []WaitingByRange    `json:"statistics"` // those that most criteria name, by name
	Longest    []LongWaitingTicket `json:"longest"`    // those that have waited the longest, the longest first
}

// LongestWaits are percentiles of how long tickets have waited, and the longest wait, in milliseconds.
type LongestWaits struct {
	Waits
	Max int64 `json:"max"`
}

// WaitingByRange is the tickets that have a statistic, in ranges with about as many of them each.
type WaitingByRange struct {
	Name   string         `json:"name"`
	Ranges []WaitingRange `json:"ranges"` // ascending
}

// WaitingRange is the tickets whose statistic is in a range.
type WaitingRange struct {
	MinValue float64      `json:"minValue"` // of a ticket; so is MaxValue
	MaxValue float64      `json:"maxValue"`
	Tickets  int          `json:"tickets"`
	Waits    LongestWaits `json:"waitMs"`
}

// LongWaitingTicket is a ticket that waits, and how many others it could be matched with.
type LongWaitingTicket struct {
	ID         string      `json:"id"`
	WaitMillis int64       `json:"waitMs"`
	Players    int         `json:"players"`
	Acceptance *Acceptance `json:"acceptance,omitempty"` // left out if the match function isn't built in
}

// Acceptance counts, among the examined tickets, those that ask for the same match as a ticket.
type Acceptance struct {
	Others     int `json:"others"`     // of the same teams, in the same pool
	Accepts    int `json:"accepts"`    // of those, that the ticket accepts, by its criteria as they are widened now
	AcceptedBy int `json:"acceptedBy"` // of those, that accept the ticket
	Candidates int `json:"candidates"` // of those, with which it could be in a match of two
}

// Queues returns all queues, ordered by name.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	var q struct {
		Queues []Queue `json:"queues"`
	}
	_, err := c.call(ctx, request{what: "list the queues", method: http.MethodGet, path: []string{"queues"}}, &q)
	return q.Queues, err
}

// DescribeQueue returns a queue and its state. Errors: ErrNoQueue, ErrUnavailable.
func (c *Client) DescribeQueue(ctx context.Context, queue string) (QueueDescription, error) {
	var d QueueDescription
	_, err := c.call(ctx, queueRequest("describe", http.MethodGet, queue), &d)
	return d, err
}

// DescribeWaiting is DescribeQueue with Waiting. The server reads up to 10,000 tickets for it,
// for one request at a time. Errors: those of DescribeQueue, ErrOverloaded.
func (c *Client) DescribeWaiting(ctx context.Context, queue string) (QueueDescription, error) {
	r := queueRequest("describe", http.MethodGet, queue)
	r.query = url.Values{"waiting": {"true"}}
	var d QueueDescription
	_, err := c.call(ctx, r, &d)
	return d, err
}

// PutQueue creates a queue, or replaces its whole definition, which is a JSON object. In the definition that
// DescribeQueue returned, xxxxx stands for each secret; the service keeps that secret. Errors: ErrInvalidQueue, with
// the field that is wrong, ErrInvalidBody, ErrQueueConfigured, ErrTooManyQueues, ErrUnavailable. It is answered on the
// service's admin address only.
func (c *Client) PutQueue(ctx context.Context, queue string, definition []byte) (Queue, error) {
	r := queueRequest("put", http.MethodPut, queue)
	if err := checkJSON(definition, ErrInvalidBody); err != nil {
		return Queue{}, fmt.Errorf("%s: the definition isn't JSON: %w", r.what, err)
	}
	r.body = definition
	var q Queue
	_, err := c.call(ctx, r, &q)
	return q, err
}

// DeleteQueue deletes a queue that was put and in which no ticket waits. It succeeds if the queue does not exist.
// Errors: ErrQueueInUse, ErrQueueConfigured, ErrUnavailable.
func (c *Client) DeleteQueue(ctx context.Context, queue string) error {
	_, err := c.call(ctx, queueRequest("delete", http.MethodDelete, queue), nil)
	return err
}

func queueRequest(verb, method, queue string) request {
	return request{what: verb + " queue " + queue, method: method, path: []string{"queues", queue}}
}
