package channel

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Store keeps channels. Many goroutines may call it at the same time. A method returns within the context's deadline
// and the store's own time limit. Errors for clients are of package fault: fault.ErrUnavailable if the
// storage can't serve, fault.ErrStorageFull if it is out of memory. After an error nothing was written, or repeating
// the call completes it.
type Store interface {
	Log
	Registry
	Notifier
	Poller
	Operations
}

// Log writes, reads and acknowledges messages.
type Log interface {
	// Publish appends the drafts in order, all or none, and makes the channel if it doesn't exist. All drafts have IDs.
	// If an ID was published before, nothing changes, and the result has the first message's clock. Errors:
	// ErrNoChannel, and a *RefusedError.
	Publish(ctx context.Context, r PublishRequest) ([]Published, error)
	// BeginPublish is Publish without waiting, for one message. done is called once with the result, by a goroutine that
	// others wait for too, so it must return soon; of ctx only the values are used before an attempt has failed. The
	// content isn't used after BeginPublish has returned. If it returns false, nothing was done: Publish must be called.
	BeginPublish(ctx context.Context, r PublishRequest, done func([]Published, error)) bool
	// PublishEach is Publish for requests that are independent of each other, together. It returns a result for each. A
	// message can be reported as a duplicate of itself, if it was stored by an attempt whose answer was lost.
	PublishEach(ctx context.Context, requests []PublishRequest) []PublishResult
	// CloseChannel closes a channel, if it isn't closed already, and returns its position. Errors: ErrNoChannel, and those
	// of a request with a producer: also ErrProducerGap if it repeats a publish that hasn't closed the channel.
	CloseChannel(ctx context.Context, r CloseRequest) (Life, error)
	// Create makes a channel with properties. If it exists, nothing changes.
	Create(ctx context.Context, r CreateRequest) (Created, error)
	// Life reads the current life of a channel. Errors: ErrNoChannel.
	Life(ctx context.Context, channel string) (Life, error)
	// Fetch reads the messages after the subscriber's mark, or after a position ahead of it, or those of a tail. It moves
	// nothing. Errors: ErrNoSubscriber; of a tail ErrNoChannel and ErrClockAhead.
	Fetch(ctx context.Context, r FetchRequest) (Batch, error)
	// Ack moves the mark up to the receipt's clock. A receipt at or behind the mark changes nothing and succeeds.
	// Errors: ErrNoSubscriber, ErrReceiptEpoch, ErrReceiptAhead, ErrReceiptSuperseded.
	Ack(ctx context.Context, r AckRequest) error
	// Next is Ack followed by Fetch in one step. If Ack fails, nothing is read. Errors: those of both.
	Next(ctx context.Context, a AckRequest, f FetchRequest) (Batch, error)
}

// Poller reads many channels together.
type Poller interface {
	// Poll acknowledges receipts and reads the clocks and marks of channels, but no messages. The requests are
	// independent of each other; all are sent before the first is answered. It returns a result for each. Errors: those
	// of Ack and Fetch.
	Poll(ctx context.Context, requests []PollRequest) []PollResult
	// FetchEach is Fetch for requests that are independent of each other, together. It returns a result for each.
	FetchEach(ctx context.Context, requests []FetchRequest) []BatchResult
}

// Registry makes, removes and lists subscribers.
type Registry interface {
	// Subscribe makes the channel and the subscriber if they don't exist. Errors: ErrClockAhead,
	// ErrTooManySubscribers, ErrNoChannel, ErrNoSubscriber.
	Subscribe(ctx context.Context, r SubscribeRequest) (Subscription, error)
	// Unsubscribe removes the subscriber, with an EventUnsubscribed. It succeeds if there is none, and removes none in
	// a life of the channel after last, unless that is zero.
	Unsubscribe(ctx context.Context, channel, subscriber string, last ulid.ULID) error
	// Describe returns a channel and one page of its subscribers. Errors: ErrNoChannel.
	Describe(ctx context.Context, r DescribeRequest) (Description, error)
}

// Notifier reports what happens on channels.
type Notifier interface {
	// Positions reads the clocks of channels, together, and returns a result for each. Errors: ErrNoChannel.
	Positions(ctx context.Context, channels []string) []PositionResult
	// Listen calls sink with the events of a channel, one after the other, until stop is called, and returns at once.
	// It connects and reconnects by itself, and events are lost while it isn't connected. After each connect sink
	// receives EventConfirmed, and from then on every event. sink must return quickly and must not call stop. After
	// stop has returned, sink isn't called any more.
	Listen(channel string, sink func(Event)) (stop func())
}

// Event is something that happened on a channel.
type Event struct {
	Kind       EventKind
	Position            // of EventPublished: the message's; of others: the channel's at the time
	Message    *Message // of EventPublished: the message; nil if it is too large for an event, or was in a batch
	Subscriber string   // of EventUnsubscribed and EventSought
}

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events.
const (
	EventConfirmed    EventKind = iota // every event is delivered from now on; earlier ones may have been lost
	EventPublished                     // a message was published, or a batch, whose last message it was
	EventUnsubscribed                  // a subscriber was removed
	EventSought                        // a subscriber's mark was set
	EventDeleted                       // the channel was deleted
	EventClosed                        // the channel was closed, after the message at its position
)

// PositionResult is the position of a channel, or the error of reading it.
type PositionResult struct {
	Position
	Err error
}

// PublishRequest is the argument of Publish.
type PublishRequest struct {
	Channel string
	Drafts  []Draft
	Policy  Policy
	Epoch   ulid.ULID // the life to publish in: ErrLaterLife if a later one has begun; zero: any
	// Subscriber is made if this publish makes the channel, with its mark before the drafts. Empty: none.
	Subscriber string
	Existing   bool // ErrNoChannel if the channel doesn't exist
	Close      bool // the channel is closed after the drafts
	// Producer is whose publish it is. Drafts without an ID get one that is the same in a repeat. nil: it has none.
	Producer *Producer
	// Order must be greater than that of the channel's last publish that had one, compared byte by byte; empty: none.
	Order string
}

// CloseRequest is the argument of CloseChannel.
type CloseRequest struct {
	Channel  string
	Policy   Policy
	Producer *Producer // whose publish it counts as; nil: nobody's
}

// PublishResult is the result of Publish for one of the requests of PublishEach.
type PublishResult struct {
	Published []Published
	Err       error
}

// FetchRequest is an argument of Fetch.
type FetchRequest struct {
	Channel    string
	Subscriber string // empty for a tail
	// Tail is where a fetch without a subscriber begins, if it has no After. Such a fetch writes nothing, but that it
	// renews a channel with a TTL of its own. nil: it has a subscriber. Next and Poll need one.
	Tail     *From
	Peek     bool // the tail renews nothing
	Max      int  // most messages; a tail may ask for 0, to find where it begins
	MaxBytes int  // most bytes of messages, 1 or more; one message is always returned
	Policy   Policy
	// After is a position to begin at, with the fields of a receipt, if the mark hasn't passed it and the channel
	// still has its history: see Batch.After and Batch.Lost. nil: the mark. Next and Poll don't use it. A tail whose
	// position the channel doesn't have begins at Tail, or at the channel's clock if that is ahead of it, or before the
	// oldest message alive if the position is of an earlier life.
	After *receipt.Receipt
	// Anything says that it isn't known which message is at After: any may be.
	Anything bool
	// FromMark makes the reading begin at the mark all the same: After is only checked.
	FromMark bool
	// Identify asks for Batch.Last also if no messages are found, so that the batch has a position to begin at later.
	Identify bool
	// Woken says that the caller waited and was notified, so that there is probably something to fetch.
	Woken bool
	// Wait is how long the caller will wait if there is no message. The subscriber's TTL begins at the end of it, so
	// that a caller that receives a message by an event needn't renew the subscriber.
	Wait time.Duration
}

// PollRequest is an argument of Poll. Its Max and MaxBytes have no meaning.
type PollRequest struct {
	FetchRequest
	Receipt *receipt.Receipt // acknowledged first, as by Ack; nil: none
	// Last is a receipt that the client had before. It is only compared with the channel's history: PollResult.Lost. nil:
	// none.
	Last *receipt.Receipt
}

// PollResult is the result of Poll for a channel.
type PollResult struct {
	Position             // the channel's; its epoch only if the request may wait, or has a Last
	Mark     clock.Clock // the subscriber's; there is something to fetch if it differs from the channel's clock
	Due      bool        // the subscriber must be renewed, by a fetch, even if there is nothing to fetch
	Lost     bool        // Last isn't of the channel's history, as far as Redis shows it
	Err      error
}

// BatchResult is the result of Fetch for one of the requests of FetchEach.
type BatchResult struct {
	Batch
	Err error
}

// AckRequest is an argument of Ack. The receipt, its channel and its subscriber have been verified.
type AckRequest struct {
	Receipt receipt.Receipt
	Policy  Policy
}

// SubscribeRequest is the argument of Subscribe.
type SubscribeRequest struct {
	Channel    string
	Subscriber string
	From       From
	Policy     Policy

	ExistingChannel bool // ErrNoChannel if the channel doesn't exist
	Existing        bool // ErrNoSubscriber if the subscriber doesn't
}

// DescribeRequest is the argument of Describe.
type DescribeRequest struct {
	Channel string
	Page    Page // its Limit is 1 or more
	Policy  Policy
}
