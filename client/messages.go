package client

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidemark-dev/tidemark/internal/id"
	"github.com/tidemark-dev/tidemark/wire"
)

// Draft is a message to publish. An empty ID lets the client make one. Content is one JSON value, which subscribers
// get byte for byte.
type Draft = wire.Draft

// Published is what became of a Draft. Duplicate says that the ID was published before, and that nothing was
// changed. It is never set for an ID that the client made. For the caller's own ID that was tried more than once,
// it may have been a lost try of the same call that published it.
type Published = wire.Published

// Message is a message as a subscriber gets it. PublishedAt is the storage's time; it is zero where it isn't known.
type Message = wire.Message

// Publish appends a message to a channel, and makes the channel where it is missing. However often it has to try,
// the message gets onto the channel once. Errors: ErrInvalidChannel, ErrInvalidMessageID, ErrInvalidContent,
// ErrMessageTooLarge, ErrStorageFull, ErrUnavailable.
func (c *Client) Publish(ctx context.Context, channel string, d Draft) (Published, error) {
	published, err := c.publish(ctx, channel, []Draft{d}, false)
	if err != nil {
		return Published{}, err
	}
	return published[0], nil
}

// PublishBatch appends messages to a channel in one step, all or none of them, in order. Its answers are in the
// same order. Errors: those of Publish, ErrInvalidBatch for none, ErrBatchTooLarge, ErrBodyTooLarge.
func (c *Client) PublishBatch(ctx context.Context, channel string, drafts []Draft) ([]Published, error) {
	return c.publish(ctx, channel, drafts, true)
}

func (c *Client) publish(ctx context.Context, channel string, drafts []Draft, batch bool) ([]Published, error) {
	what := "publish to " + channel
	drafts = slices.Clone(drafts)
	made := make([]bool, len(drafts))
	for i := range drafts {
		if err := checkJSON(drafts[i].Content, ErrInvalidContent); err != nil {
			return nil, fmt.Errorf("%s: content %d of %d isn't JSON: %w", what, i+1, len(drafts), err)
		}
		if made[i] = drafts[i].ID == ""; made[i] {
			drafts[i].ID = id.New()
		}
	}
	r := request{what: what, method: http.MethodPost, path: []string{"channels", channel, "messages"}}
	published := make([]Published, 1)
	var out any = &published[0]
	if batch {
		r.body, out = wire.AppendDraftsJSON(nil, drafts), &published
	} else {
		r.body = drafts[0].AppendJSON(nil)
	}
	if _, err := c.call(ctx, r, out); err != nil {
		return nil, err
	}
	if len(published) != len(drafts) {
		return nil, fmt.Errorf("%s: %d messages were answered for %d", what, len(published), len(drafts))
	}
	for i := range published {
		if made[i] { // nobody else has the ID: an earlier try of this call got through
			published[i].Duplicate = false
		}
	}
	return published, nil
}
