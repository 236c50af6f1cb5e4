package client

import (
	"context"
	"net/http"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// NewBackfill is a backfill to create, in a queue that is directed by its user.
type NewBackfill = wire.NewBackfill

// BackfillSpec is the content of a backfill.
type BackfillSpec = matchmaking.BackfillSpec

// Backfill is the request of a running game for more players.
type Backfill = wire.Backfill

// Acknowledgement is where the tickets of a backfill play.
type Acknowledgement = wire.Acknowledgement

// AcknowledgedBackfill is a backfill, and the tickets that an acknowledgement assigned.
type AcknowledgedBackfill = wire.AcknowledgedBackfill

// CreateBackfill creates a backfill. If a lost answer is retried, there are two, of which the first expires.
// Errors: ErrInvalidBody, ErrInvalidBackfill, ErrNoQueue, ErrQueueDirector, ErrBackfillTooLarge, ErrTooManyBackfills,
// ErrStorageFull, ErrUnavailable.
func (c *Client) CreateBackfill(ctx context.Context, b NewBackfill) (Backfill, error) {
	r := request{what: "create a backfill", method: http.MethodPost, path: []string{"backfills"}}
	var made Backfill
	err := c.send(ctx, r, b, &made)
	return made, err
}

// Backfill returns a backfill. Errors: ErrNoBackfill, ErrUnavailable.
func (c *Client) Backfill(ctx context.Context, id string) (Backfill, error) {
	var b Backfill
	_, err := c.call(ctx, backfillRequest("get", http.MethodGet, id), &b)
	return b, err
}

// UpdateBackfill replaces the content of a backfill, and releases the tickets that wait for its acknowledgement. A nil
// PersistentField stays as it is. If a lost answer is retried, its generation may rise by two. Errors: ErrInvalidBody,
// ErrNoBackfill, ErrBackfillExpired, ErrBackfillTooLarge, ErrStorageFull, ErrUnavailable.
func (c *Client) UpdateBackfill(ctx context.Context, id string, spec BackfillSpec) (Backfill, error) {
	var b Backfill
	err := c.send(ctx, backfillRequest("update", http.MethodPut, id), spec, &b)
	return b, err
}

// DeleteBackfill deletes a backfill, and releases its tickets. It succeeds if the backfill does not exist. Errors:
// ErrUnavailable.
func (c *Client) DeleteBackfill(ctx context.Context, id string) error {
	_, err := c.call(ctx, backfillRequest("delete", http.MethodDelete, id), nil)
	return err
}

// AcknowledgeBackfill extends the life of a backfill, and assigns the tickets that matches have added to it: the game
// server calls it more often than the queue's backfillTTL. After a lost answer, the tickets may be assigned and missing
// in the answer to a repetition. Errors: ErrInvalidBody, ErrNoBackfill, ErrBackfillExpired, ErrUnavailable.
func (c *Client) AcknowledgeBackfill(ctx context.Context, id string, a Acknowledgement) (AcknowledgedBackfill, error) {
	r := backfillRequest("acknowledge", http.MethodPost, id)
	r.path = append(r.path, "acknowledge")
	var done AcknowledgedBackfill
	err := c.send(ctx, r, a, &done)
	return done, err
}

func backfillRequest(verb, method, id string) request {
	return request{what: verb + " backfill " + id, method: method, path: []string{"backfills", id}}
}
