package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrStop ends Consume without an error where a Consumer's Handle returns it, perhaps wrapped. The message
// that it was called with counts as handled.
var ErrStop = errors.New("stop consuming")

// defaultWait is how long Consume lets a fetch wait where the Consumer doesn't say.
const defaultWait = 20 * time.Second

// emptyPause keeps Consume from asking all the time where the service answers at once with nothing, as it does
// while it shuts down.
const emptyPause = 100 * time.Millisecond

// Consumer says what Consume reads and what happens with it.
type Consumer struct {
	Channel    string
	Subscriber string // must be there: see Subscribe
	// Handle is called for each message, in order, one at a time. Its context ends when Consume's does. A message
	// can come again after a failure anywhere: Handle must bear that.
	Handle func(context.Context, Message) error
	// Expired is called with the number of messages whose life had ended before they could be read. May be nil.
	Expired func(n uint64)
	// FetchOptions are those of each fetch. With a Max of 1 each message is acknowledged by itself, otherwise all
	// of a fetch together. A Wait of 0 means 20 seconds.
	FetchOptions
	// AckGrace is how long the acknowledgement of what was handled may still take after the context has ended.
	// With 0 it isn't sent then, and what was handled since the last one will come again.
	AckGrace time.Duration
}

// Consume reads, handles and acknowledges until ctx ends, Handle fails, or the service refuses. A message is
// acknowledged only after Handle returned nil (or ErrStop) for it; where Handle fails, what it has handled before
// is acknowledged and what it failed on isn't. It returns nil only after ErrStop; otherwise the error of ctx, of
// Handle, or of the service, such as ErrNoSubscriber.
//
// Where the service refuses an acknowledgement because the channel has lost what it stands for (ErrReceiptEpoch,
// ErrReceiptAhead, ErrReceiptSuperseded), Consume goes on from the subscriber's mark.
func (c *Client) Consume(ctx context.Context, consumer Consumer) error {
	if consumer.Wait == 0 {
		consumer.Wait = defaultWait
	}
	receipt := ""
	for {
		asked := time.Now()
		d, err := c.Next(ctx, consumer.Channel, consumer.Subscriber, receipt, consumer.FetchOptions)
		switch {
		case receipt != "" && lostReceipt(err):
			receipt = ""
			continue
		case err != nil && ctx.Err() != nil:
			return errors.Join(err, c.ackLast(ctx, consumer, receipt)) // it may not have come through
		case err != nil:
			return err
		}
		if d.Expired > 0 && consumer.Expired != nil {
			consumer.Expired(d.Expired)
		}
		handled, err := consumer.handleAll(ctx, d.Messages)
		if err != nil {
			ackErr := c.ackHandled(ctx, consumer, d, handled)
			if errors.Is(err, ErrStop) {
				err = nil
			}
			return errors.Join(err, ackErr)
		}
		if receipt = d.ReceiptHandle; receipt == "" && time.Since(asked) < emptyPause {
			if err := sleep(ctx, emptyPause); err != nil {
				return ended(ctx)
			}
		}
	}
}

// handleAll calls Handle for the messages, and gives how many it handled.
func (c Consumer) handleAll(ctx context.Context, messages []Message) (handled int, err error) {
	for i, m := range messages {
		if ctx.Err() != nil {
			return i, ended(ctx)
		}
		switch err := c.Handle(ctx, m); {
		case errors.Is(err, ErrStop):
			return i + 1, err
		case err != nil:
			return i, fmt.Errorf("handle message %s: %w", m.ID, err)
		}
	}
	return len(messages), nil
}

// ackHandled acknowledges the first messages of a delivery. For some but not all of them it needs another receipt,
// which a fetch of only so many gives.
func (c *Client) ackHandled(ctx context.Context, consumer Consumer, d Delivery, handled int) error {
	ctx, cancel := consumer.grace(ctx)
	defer cancel()
	switch {
	case handled == 0 || ctx.Err() != nil:
		return nil
	case handled == len(d.Messages):
		return c.ackLast(ctx, consumer, d.ReceiptHandle)
	}
	part, err := c.Fetch(ctx, consumer.Channel, consumer.Subscriber, FetchOptions{Max: handled})
	if err != nil {
		return err
	}
	n := len(part.Messages)
	same := func(m Message) bool { return m.ID == part.Messages[n-1].ID && m.Clock == part.Messages[n-1].Clock }
	if n == 0 || !slices.ContainsFunc(d.Messages[:handled], same) {
		return nil // something has changed in the meantime; what was handled comes again
	}
	return c.ackLast(ctx, consumer, part.ReceiptHandle)
}

// ackLast acknowledges what was handled, within the grace where ctx has ended.
func (c *Client) ackLast(ctx context.Context, consumer Consumer, receiptHandle string) error {
	ctx, cancel := consumer.grace(ctx)
	defer cancel()
	if receiptHandle == "" || ctx.Err() != nil {
		return nil
	}
	if err := c.Ack(ctx, consumer.Channel, consumer.Subscriber, receiptHandle); !lostReceipt(err) {
		return err
	}
	return nil
}

// grace gives the context of what is left to do: ctx, or where that has ended one that lasts for AckGrace.
func (c Consumer) grace(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil || c.AckGrace <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), c.AckGrace)
}
