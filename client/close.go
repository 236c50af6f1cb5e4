package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/tidemark-dev/tidemark/clock"
)

// Created is the answer of creating a channel.
type Created struct {
	Channel string      `json:"channel"`
	Created bool        `json:"created"` // false: it existed, with the same properties
	Epoch   string      `json:"epoch"`
	Clock   clock.Clock `json:"clock"` // of the last message
}

// Closed is the answer of closing a channel.
type Closed struct {
	Channel string      `json:"channel"`
	Epoch   string      `json:"epoch"`
	Clock   clock.Clock `json:"clock"` // of the last message
}

// Producer identifies a publish among those of one publisher, so that each is accepted once, and in order. The first
// sequence of an epoch is 0, and each further one is the next. A publisher that has restarted begins with a higher epoch,
// which fences the lower ones. Writer numbers publishes.
type Producer struct {
	ID       string
	Epoch    int64
	Sequence int64
}

func (p *Producer) query() url.Values {
	if p == nil {
		return nil
	}
	return url.Values{"producer": {p.ID}, "epoch": {strconv.FormatInt(p.Epoch, 10)},
		"sequence": {strconv.FormatInt(p.Sequence, 10)}}
}

// PublishOptions are options of PublishWith.
type PublishOptions struct {
	// Producer is whose publish it is; nil: it has none. Drafts without an ID get one of the service that is the same in a
	// repeat.
	Producer *Producer
	Order    string // must be greater than that of the channel's last publish that had one; empty: none
	Close    bool   // the channel is closed after the messages, in the same step
}

func (o *PublishOptions) query() url.Values {
	q := o.Producer.query()
	if o.Order == "" && !o.Close {
		return q
	}
	if q == nil {
		q = url.Values{}
	}
	if o.Order != "" {
		q.Set("order", o.Order)
	}
	if o.Close {
		q.Set("close", "true")
	}
	return q
}

// PublishWith is PublishBatch with options. Errors: those of PublishBatch, ErrChannelClosed, ErrInvalidProducer,
// ErrProducerFenced, ErrProducerGap, ErrProducerStart, ErrManyProducers and ErrOrderConflict.
func (c *Client) PublishWith(ctx context.Context, channel string, drafts []Draft, o PublishOptions) ([]Published, error) {
	return c.publishWith(ctx, channel, drafts, true, o)
}

// CloseChannel closes a channel: it gets no further messages in this life, and readers are told the end once they have
// everything. To close it again changes nothing. by is the producer whose publish it counts as; nil: nobody's. Errors:
// ErrInvalidChannel, ErrNoChannel, ErrUnavailable, and those of a producer's publish.
func (c *Client) CloseChannel(ctx context.Context, channel string, by *Producer) (Closed, error) {
	r := request{what: "close " + channel, method: http.MethodPost, path: []string{"channels", channel, "close"},
		query: by.query()}
	var closed Closed
	_, err := c.call(ctx, r, &closed)
	return closed, err
}

// Writer publishes to a channel as a producer, and numbers its publishes. Each is on the channel once, and in order, also
// after a failure: a call whose predecessor failed without a refusal repeats that first. Its methods may be called by
// many goroutines, and then follow each other.
type Writer struct {
	client   *Client
	channel  string
	mu       sync.Mutex
	next     Producer
	unknown  []Draft // of the last publish, whose outcome isn't known
	wasClose bool    // it was to close the channel
}

// NewWriter returns a writer with the ID of a producer, and an epoch that must be higher than those of its predecessors
// with that ID, such as the time in milliseconds at which it begins.
func (c *Client) NewWriter(channel, producer string, epoch int64) *Writer {
	return &Writer{client: c, channel: channel, next: Producer{ID: producer, Epoch: epoch}}
}

// Publish appends messages in one step. Errors: those of PublishWith.
func (w *Writer) Publish(ctx context.Context, drafts ...Draft) ([]Published, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.repeat(ctx); err != nil {
		return nil, err
	}
	return w.publish(ctx, drafts, false)
}

// Close appends the last messages, if there are any, and closes the channel in the same step.
func (w *Writer) Close(ctx context.Context, drafts ...Draft) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.repeat(ctx)
	if err == nil {
		_, err = w.publish(ctx, drafts, true)
	}
	return err
}

// repeat repeats the last publish if its outcome isn't known. The lock is held.
func (w *Writer) repeat(ctx context.Context) error {
	if w.unknown == nil {
		return nil
	}
	_, err := w.publish(ctx, w.unknown, w.wasClose)
	return err
}

// publish publishes drafts with the next sequence. The lock is held.
func (w *Writer) publish(ctx context.Context, drafts []Draft, last bool) (published []Published, err error) {
	by := w.next
	if len(drafts) > 0 {
		published, err = w.client.PublishWith(ctx, w.channel, drafts, PublishOptions{Producer: &by, Close: last})
	} else {
		_, err = w.client.CloseChannel(ctx, w.channel, &by)
	}
	var refused *Error
	switch {
	case err == nil:
		w.next.Sequence++
		w.unknown = nil
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		w.unknown = nil // nothing was stored
	default:
		w.unknown, w.wasClose = append([]Draft{}, drafts...), last
	}
	return published, err
}
