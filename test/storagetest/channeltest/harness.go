package channeltest

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// Harness is a store that no other case uses, and direct access to its data. Several goroutines may call its methods at
// the same time. It is closed at the end of the test that it was made for.
type Harness interface {
	// Store returns the store.
	Store() channel.Store
	// SetClock overwrites the clock of a channel that exists, and changes nothing else, nor the clock's life.
	SetClock(ctx context.Context, channel string, c clock.Clock) error
	// Expire removes parts of a channel, as the end of their lives does. Without parts it removes the whole channel.
	Expire(ctx context.Context, channel string, parts ...Part) error
	// Life returns the rest of a part's life, zero if the part doesn't exist. It returns an error if the life has no
	// end.
	Life(ctx context.Context, channel string, p Part) (time.Duration, error)
	// SetLife sets the rest of a part's life. It returns an error if the part doesn't exist.
	SetLife(ctx context.Context, channel string, p Part, life time.Duration) error
}

// Part is a stored item of a channel, with a TTL of its own.
type Part struct {
	Kind       PartKind
	Subscriber string      // of a PartMark
	Clock      clock.Clock // of a PartMessage
	ID         string      // of a PartRecord
}

// PartKind is the kind of a Part.
type PartKind int

// The kinds of parts.
const (
	PartClock       PartKind = iota // the channel's clock
	PartEpoch                       // the epoch of the channel's life
	PartSubscribers                 // the list of its subscribers; doesn't exist if there are none
	PartMark                        // a subscriber's mark
	PartMessage                     // the message at a clock
	PartRecord                      // the dedup record of a message ID
	PartPurged                      // which messages were purged; doesn't exist if there are none
	PartDeleted                     // where the channel was deleted; doesn't exist if it wasn't
	PartProducers                   // what its producers have published; doesn't exist if it has none
)

// String returns the part's name for failure messages.
func (p Part) String() string {
	switch p.Kind {
	case PartClock:
		return "the channel's clock"
	case PartEpoch:
		return "the channel's epoch"
	case PartSubscribers:
		return "the list of subscribers"
	case PartMark:
		return "the mark of " + p.Subscriber
	case PartMessage:
		return "the message at " + p.Clock.String()
	case PartRecord:
		return "the dedup record of " + p.ID
	case PartPurged:
		return "the purged clocks"
	case PartDeleted:
		return "the clock at which the channel was deleted"
	case PartProducers:
		return "what producers have published"
	}
	return "an unknown part"
}

// Parts that a channel has once.
var (
	channelClock = Part{Kind: PartClock}
	epoch        = Part{Kind: PartEpoch}
	subscribers  = Part{Kind: PartSubscribers}
	purged       = Part{Kind: PartPurged}
	deleted      = Part{Kind: PartDeleted}
	producers    = Part{Kind: PartProducers}
)

// mark returns the mark of a subscriber.
func mark(subscriber string) Part { return Part{Kind: PartMark, Subscriber: subscriber} }

// message returns the message at a clock.
func message(at clock.Clock) Part { return Part{Kind: PartMessage, Clock: at} }

// record returns the dedup record of a message ID.
func record(messageID string) Part { return Part{Kind: PartRecord, ID: messageID} }
