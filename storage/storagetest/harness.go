package storagetest

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// Harness is a store that no other case uses, and a way behind it. Its methods may be called by several
// goroutines at the same time. What it began ends with the test that it was made for.
type Harness interface {
	// Store gives the store.
	Store() channel.Store
	// SetClock overwrites the clock of a channel that exists. Nothing else changes, lives neither.
	SetClock(ctx context.Context, channel string, c clock.Clock) error
	// Expire removes parts of a channel, as the end of their lives does; without parts everything of it.
	Expire(ctx context.Context, channel string, parts ...Part) error
	// Life gives what is left of a part's life: zero where it isn't there. It is an error where it never ends.
	Life(ctx context.Context, channel string, p Part) (time.Duration, error)
	// SetLife sets what is left of a part's life. It is an error where the part isn't there.
	SetLife(ctx context.Context, channel string, p Part, left time.Duration) error
}

// Part is one thing that a store keeps of a channel, with a life of its own.
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
	PartEpoch                       // the name of the channel's life
	PartSubscribers                 // the list of its subscribers; only there where it has any
	PartMark                        // a subscriber's mark
	PartMessage                     // the message at a clock
	PartRecord                      // the dedup record of a message ID
)

// String names the part in failures.
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
	}
	return "an unknown part"
}

var (
	clockPart       = Part{Kind: PartClock}
	epochPart       = Part{Kind: PartEpoch}
	subscribersPart = Part{Kind: PartSubscribers}
)

func mark(subscriber string) Part  { return Part{Kind: PartMark, Subscriber: subscriber} }
func message(at clock.Clock) Part  { return Part{Kind: PartMessage, Clock: at} }
func record(messageID string) Part { return Part{Kind: PartRecord, ID: messageID} }
