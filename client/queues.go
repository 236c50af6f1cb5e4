package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Queue is a queue of tickets and its definition, without secrets.
type Queue = wire.Queue

// QueueDescription is a queue and its state. Waits is nil if no ticket was matched recently.
type QueueDescription = wire.QueueDescription

// Waiting lists the tickets that wait longest in a queue, with reasons.
type Waiting = wire.Waiting

// LongestWaits are percentiles of how long tickets have waited, and the longest wait, in milliseconds.
type LongestWaits = wire.LongestWaits

// Queues returns all queues, ordered by name.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	var q wire.Queues
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
