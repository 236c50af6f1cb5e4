package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tidemark-dev/tidemark/internal/pace"
)

// errAllClosed ends Consume: all channels are closed, and everything of them is handled.
var errAllClosed = errors.New("all channels are closed")

// ErrStop ends Consume without an error when a Consumer's Handle returns it or an error that wraps it. The message of
// that call counts as handled.
var ErrStop = errors.New("stop consuming")

// defaultWait is how long a fetch of Consume waits if the Consumer doesn't set it.
const defaultWait = 20 * time.Second

// emptyPause is the shortest time between fetches without messages. A service that shuts down answers them at once.
const emptyPause = 100 * time.Millisecond

// Consumer describes the source of Consume, and handles its messages.
type Consumer struct {
	Channel    string
	Subscriber string // must exist: see Subscribe
	// Handle is called for each message, in order, one at a time. Its context ends when that of Consume does. After a
	// failure a message can be delivered again: Handle must be safe to repeat.
	Handle func(context.Context, Message) error
	// Gap is called for messages that Handle doesn't get, or that may come again, before those after them. It may be nil.
	Gap func(Gap)
	// Closed is called when the channel is closed and everything of it is handled. Consume then returns. It may be nil.
	Closed func()
	// FetchOptions are Max, the number of messages that may be handled and not yet acknowledged, with 0 meaning 64, and
	// Wait, how long a poll waits, with 0 meaning 20 seconds. With a Max of 1 each message is acknowledged before the
	// next one is handled.
	FetchOptions
	// AckGrace is how long the last acknowledgement may take after the context has ended. With 0 it isn't sent then,
	// and the messages that were handled since the previous one are delivered again.
	AckGrace time.Duration
}

// Consume reads, handles and acknowledges messages until ctx ends, Handle fails, or the service refuses a call. A
// message is acknowledged only after Handle returned nil (or ErrStop) for it. If Handle fails, the messages before that
// one are acknowledged. Consume returns nil after ErrStop, and when the channel is closed and everything of it is handled
// and acknowledged; otherwise the error of ctx, of Handle, or of the service, such as ErrNoSubscriber.
//
// Messages come on a stream, which reads up to 256 of them ahead of Handle. While there is none, because it broke, the
// service is older than streams, or a proxy holds them back, Consume polls, and it tries to open a stream again after a
// pause of up to 10 minutes. A refusal, and a failure that lasts longer than the RetryPolicy allows, is that of a poll.
// Polls alone (WithoutStreams) keep the line breaks between the tokens of a content: see Message.
//
// If the service refuses an acknowledgement because the channel has lost the messages that it is for (ErrReceiptEpoch,
// ErrReceiptAhead, ErrReceiptSuperseded), Consume continues from the subscriber's mark.
func (c *Client) Consume(ctx context.Context, consumer Consumer) error {
	if consumer.Wait == 0 {
		consumer.Wait = defaultWait
	}
	streams := c.newFollower(consumer.Max)
	from := []Source{{Channel: consumer.Channel, Subscriber: consumer.Subscriber}}
	source := &from[0] // its receipt is acknowledged next
	for {
		if streams.due() {
			err := streams.follow(ctx, from, func(a Arrival) (bool, error) { return consumer.handle(ctx, a) })
			if err != nil {
				return errors.Join(unlessStop(err), c.ackLast(ctx, consumer, source.ReceiptHandle))
			}
		}
		asked := time.Now()
		d, err := c.next(ctx, *source, consumer.FetchOptions)
		switch {
		case source.ReceiptHandle != "" && lostReceipt(err):
			clearReceipts(source)
			consumer.reportLost()
			continue
		case err != nil && ctx.Err() != nil:
			return errors.Join(err, c.ackLast(ctx, consumer, source.ReceiptHandle)) // the service may not have received it
		case err != nil:
			return err
		}
		consumer.skipped(&d)
		handled, err := consumer.handleAll(ctx, d.Messages)
		if err != nil {
			return errors.Join(unlessStop(err), c.ackHandled(ctx, consumer, d, handled))
		}
		setReceipts(source, &d)
		if d.Closed {
			consumer.reportClosed()
			return c.ackLast(ctx, consumer, source.ReceiptHandle)
		}
		if d.ReceiptHandle == "" && time.Since(asked) < emptyPause {
			if !pace.Sleep(ctx, emptyPause) {
				return ended(ctx)
			}
		}
	}
}

// unlessStop returns err, or nil if it is ErrStop or errAllClosed.
func unlessStop(err error) error {
	if errors.Is(err, ErrStop) || errors.Is(err, errAllClosed) {
		return nil
	}
	return err
}

// handle handles what a stream has received. It reports whether that is to be acknowledged.
func (c Consumer) handle(ctx context.Context, a Arrival) (handled bool, err error) {
	switch {
	case a.Closed:
		c.reportClosed()
		return true, errAllClosed
	case a.Message == nil:
		c.report(*a.Gap)
		return true, nil
	}
	n, err := c.handleAll(ctx, []Message{*a.Message})
	return n > 0, err
}

// skipped reports the messages that a delivery leaves out, and that the channel has lost its history.
func (c Consumer) skipped(d *Delivery) {
	if d.Lost {
		c.reportLost()
	}
	for _, gap := range []Gap{{GapExpired, d.Expired}, {GapPurged, d.Purged}, {GapDamaged, d.Damaged}} {
		if gap.Count > 0 {
			c.report(gap)
		}
	}
}

// reportLost reports that the channel has lost its history.
func (c Consumer) reportLost() { c.report(Gap{Reason: GapLost}) }

func (c Consumer) reportClosed() {
	if c.Closed != nil {
		c.Closed()
	}
}

func (c Consumer) report(gap Gap) {
	if c.Gap != nil {
		c.Gap(gap)
	}
}

// handleAll calls Handle for the messages, and returns how many were handled.
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

// ackHandled acknowledges the first messages of a delivery. To acknowledge only some of them it needs another receipt,
// from a fetch of that number of messages.
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
		return nil // the channel has changed in the meantime: the messages are delivered again
	}
	return c.ackLast(ctx, consumer, part.ReceiptHandle)
}

// ackLast acknowledges the messages handled, within the grace if ctx has ended.
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

// grace returns the context for the last acknowledgement: ctx, or one that lasts for AckGrace if ctx has ended.
func (c Consumer) grace(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil || c.AckGrace <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), c.AckGrace)
}
