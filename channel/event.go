package channel

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// Message is a message as a subscriber receives it. It may be shared by many readers: treat as read-only.
type Message struct {
	ID          string
	Clock       clock.Clock
	Content     []byte    // JSON, byte for byte as it was published
	PublishedAt time.Time // Redis time, to the millisecond; zero if the predecessor stored the message
}

// Position is a clock in one life of a channel, which an epoch identifies.
type Position struct {
	Epoch ulid.ULID
	Clock clock.Clock
}

// Notifier reports what happens on channels.
type Notifier interface {
	// Positions reads the clocks of channels, together, and returns a result for each. Errors: fault.SlugNoChannel.
	Positions(ctx context.Context, channels []string) []PositionResult
	// Listen calls sink with the events of a channel, one after the other, until stop is called, and returns at once.
	// It connects and reconnects by itself. Events are lost while it isn't connected: sink gets EventConfirmed when it
	// is connected, for the first time and after each interruption, and from then on every event. sink must return
	// quickly and must not call stop. After stop has returned, sink isn't called any more.
	Listen(channel string, sink func(Event)) (stop func())
}

// PositionResult is the position of a channel, or the error of reading it.
type PositionResult struct {
	Position
	Err error
}

// errNoChannel is to compare with what a Notifier returns.
var errNoChannel = &fault.Error{Slug: fault.SlugNoChannel}

// Event is something that happened on a channel.
type Event struct {
	Kind       EventKind
	Position            // of EventPublished: the message's; of EventUnsubscribed: the channel's at the time
	Message    *Message // of EventPublished: the message; nil if it is too large for an event
	Subscriber string   // of EventUnsubscribed
}

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events.
const (
	EventConfirmed    EventKind = iota // every event is delivered from now on; earlier ones may have been lost
	EventPublished                     // a message was published
	EventUnsubscribed                  // a subscriber was removed
)
