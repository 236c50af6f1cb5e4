package channel

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
