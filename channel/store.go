package channel

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/receipt"
)

// Store keeps channels. Every method may be called at the same time by many goroutines, answers within the
// context's deadline and the store's own time limit, and returns an *fault.Error (perhaps wrapped) for outcomes that
// a client is told: fault.ErrUnavailable where the storage can't serve, fault.ErrStorageFull where it has no memory. On an
// error nothing was written, or a repeat of the call completes it.
type Store interface {
	Log
	Registry
	Notifier
}

// Log writes, reads and acknowledges messages.
type Log interface {
	// Publish appends the drafts in order, all or none. A draft whose ID has a live dedup record changes nothing
	// and is answered with the first one's clock. The channel is made where it is missing. IDs are set.
	Publish(ctx context.Context, r PublishRequest) ([]Published, error)
	// Fetch reads what stands after the subscriber's mark. Errors: ErrNoSubscriber.
	Fetch(ctx context.Context, r FetchRequest) (Batch, error)
	// Ack moves the mark up to the receipt's clock. A receipt at or behind the mark changes nothing and succeeds.
	// Errors: ErrNoSubscriber, ErrReceiptEpoch, ErrReceiptAhead, ErrReceiptSuperseded.
	Ack(ctx context.Context, r AckRequest) error
	// Next is Ack and then Fetch in one step; its errors are theirs, and after an error of Ack nothing is read.
	Next(ctx context.Context, a AckRequest, f FetchRequest) (Batch, error)
}

// Registry makes, removes and lists subscribers.
type Registry interface {
	// Subscribe makes the channel and the subscriber where they are missing. Errors: ErrClockAhead.
	Subscribe(ctx context.Context, r SubscribeRequest) (Subscription, error)
	// Unsubscribe removes the subscriber and tells its waiters. Removing one that isn't there succeeds.
	Unsubscribe(ctx context.Context, channel, subscriber string) error
	// Describe tells of a channel and of one page of its subscribers. Errors: ErrNoChannel.
	Describe(ctx context.Context, r DescribeRequest) (Description, error)
}

// Notifier tells when something happens on a channel.
type Notifier interface {
	// Positions reads the clocks of channels, together, and returns a result for each. Errors: ErrNoChannel.
	Positions(ctx context.Context, channels []string) []PositionResult
	// Listen calls sink with the events of a channel, one after the other, until stop is called, and returns at once. It
	// connects and reconnects by itself. Events are lost while it isn't connected: sink gets EventConfirmed when it is
	// connected, for the first time and after each interruption, and from then on every event. sink must return quickly
	// and must not call stop. After stop has returned, sink isn't called any more.
	Listen(channel string, sink func(Event)) (stop func())
}

// PositionResult is the position of a channel, or the error of reading it.
type PositionResult struct {
	Position
	Err error
}

// Event is something that happened on a channel.
type Event struct {
	Kind       EventKind
	Position            // of EventPublished: the message's; of EventUnsubscribed: the channel's at the time
	Message    *Message // of EventPublished: the message, or nil where it was too large to come along
	Subscriber string   // of EventUnsubscribed
}

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events.
const (
	EventConfirmed    EventKind = iota // listening from now on; whatever happened before may have been missed
	EventPublished                     // a message was published
	EventUnsubscribed                  // a subscriber was removed
)

// PublishRequest is what Publish appends, and under which policy.
type PublishRequest struct {
	Channel string
	Drafts  []Draft
	Policy  Policy
	// Epoch is the life of the channel that the drafts are for: where a later one has begun nothing is published, and the
	// error is ErrLaterLife. Zero: any life.
	Epoch ulid.ULID
}

// FetchRequest is what Fetch reads.
type FetchRequest struct {
	Channel    string
	Subscriber string
	Max        int // messages at most, 1 or more
	MaxBytes   int // bytes of messages at most, but always one message; 1 or more
	Policy     Policy
	// Wait is how long the caller is going to wait where there is nothing to read; 0: not at all. The subscriber has its
	// whole TTL after that, so that a caller who is told of a message in time needn't renew it.
	Wait time.Duration
}

// AckRequest is what Ack acknowledges. The receipt has been verified, its channel and subscriber included.
type AckRequest struct {
	Receipt receipt.Receipt
	Policy  Policy
}

// SubscribeRequest is what Subscribe makes.
type SubscribeRequest struct {
	Channel    string
	Subscriber string
	From       From
	Policy     Policy
}

// DescribeRequest is what Describe tells of.
type DescribeRequest struct {
	Channel string
	Page    Page // its Limit is 1 or more
	Policy  Policy
}
