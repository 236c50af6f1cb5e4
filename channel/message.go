package channel

import (
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/receipt"
)

// Message is a message as a subscriber receives it. It may be shared by many readers: treat as read-only.
type Message struct {
	ID          string
	Clock       clock.Clock
	ContentType string    // as that of its Draft
	Content     []byte    // byte for byte as it was published
	PublishedAt time.Time // Redis time, to the millisecond; zero if the predecessor stored the message
	Trace       string    // that of its Draft
	// Write is the write that stored the message, which a receipt stands for; zero if the predecessor stored it.
	Write receipt.Write
}

// Identity returns the message without its content.
func (m *Message) Identity() Message {
	return Message{ID: m.ID, Clock: m.Clock, PublishedAt: m.PublishedAt, Write: m.Write}
}

// Draft returns the draft of a copy on another channel. It shares the content.
func (m *Message) Draft() Draft {
	return Draft{ID: m.ID, ContentType: m.ContentType, Content: m.Content, Trace: m.Trace}
}

// Position is a clock in one life of a channel, which an epoch identifies.
type Position struct {
	Epoch  ulid.ULID
	Clock  clock.Clock
	Closed bool // of the position of a channel: it is closed, so that no message follows
}

// Next returns the position one clock later.
func (p Position) Next() Position { return Position{Epoch: p.Epoch, Clock: p.Clock.Next()} }

// Draft is a message to be published.
type Draft struct {
	ID string // chosen by the publisher; empty: the service makes one
	// ContentType is a result of ParseContentType; empty: the content is JSON.
	ContentType string
	// Content is kept byte for byte; a store copies it. If it is JSON, it must be valid and in UTF-8. Otherwise it is any
	// bytes, or none.
	Content []byte
	Trace   string // names the trace of the publish, as the header traceparent does; empty: it isn't traced
}

// Published is the result of publishing a Draft.
type Published struct {
	ID        string
	Clock     clock.Clock // of the message; for a duplicate, of the first one
	Duplicate bool        // a message with the ID was published before, and nothing was changed
	// Differs is set for a duplicate whose content has other bytes, or another type, than that message's. It is false if
	// that isn't known: the message is gone, or the predecessor stored it.
	Differs bool
	Begun   bool // this publish created the channel, and this is its first message
	Epoch   ulid.ULID
	First   clock.Clock // that of the life
	// Sequence is the highest sequence of the request's producer that was accepted; 0 without one.
	Sequence int64
}

// Batch is the result of reading after a subscriber's mark, after a position ahead of it, or of a tail.
type Batch struct {
	Epoch    ulid.ULID
	Mark     clock.Clock // the subscriber's mark at the time; of a tail the same as After
	After    clock.Clock // where the reading began: at the mark, or at the position of the request if that is ahead of it
	Through  clock.Clock // messages after After up to here are in Messages, gone or damaged; equals After if there are none
	Clock    clock.Clock // the channel's clock at the time; there is more if Through differs from it
	Messages []Message
	Expired  uint64 // messages between After and Through that expired
	Purged   uint64 // those that an operator has purged, until they would have expired
	Damaged  uint64 // those whose stored text isn't a message any more, such as one whose content is no JSON
	// Last is the message at Through without its content, if its Clock is Through: it may be one that was skipped, being
	// damaged. It is gone or not known otherwise.
	Last Message
	// Lost is set if the position of the request isn't one of the channel's history.
	Lost       bool
	Closed     bool        // the channel is: no message follows that at Clock
	Properties             // of the channel's life
	First      clock.Clock // before the first message of the life
}

// ended reports whether the batch is all that a reader of a closed channel still gets.
func (b *Batch) ended() bool { return b.Closed && b.Through == b.Clock }

// empty reports whether there is nothing to deliver.
func (b *Batch) empty() bool { return len(b.Messages) == 0 && b.Expired+b.Purged+b.Damaged == 0 }

// deliver adds the next message to an empty batch.
func (b *Batch) deliver(m *Message) {
	b.Messages, b.Through, b.Clock, b.Last = []Message{*m}, m.Clock, m.Clock, m.Identity()
}

// From is the initial mark of a new subscriber.
type From struct {
	Start Start
	Clock clock.Clock // for StartAt: the mark; the first message read is the next one
}

// Start is the kind of a From.
type Start int

// The kinds of From.
const (
	StartLatest   Start = iota // after everything published so far
	StartEarliest              // before the oldest message alive
	StartAt                    // after From.Clock
)

func (f From) check() error {
	switch {
	case f.Start < StartLatest || f.Start > StartAt:
		return invalid(fault.SlugInvalidFrom, "/from", "from is neither latest, earliest nor a clock")
	case f.Start == StartAt && !f.Clock.Valid():
		return invalid(fault.SlugInvalidFrom, "/from", "from is %d, a clock is from %d to %d", f.Clock, clock.Min,
			clock.Max)
	}
	return nil
}

// Subscription is the result of a subscribe.
type Subscription struct {
	Created  bool // false: the subscriber existed, and its mark was not moved
	Begun    bool // the channel was made too
	Position      // of the subscriber's mark
}

// Description describes a channel and one page of its subscribers.
type Description struct {
	Life
	Oldest      clock.Clock     // of the oldest message alive, if Live is not zero
	Live        uint64          // clocks from Oldest to the channel's clock
	Remaining   time.Duration   // life of the channel without activity
	Names       uint64          // subscribers, including some that have expired and aren't removed yet
	Subscribers []SubscriberLag // one page, by name
	Next        Cursor          // of the next page; 0: this is the last
}

// SubscriberLag is a subscriber's mark and lag.
type SubscriberLag struct {
	Name string
	Mark clock.Clock
	Lag  uint64 // messages published after the mark, alive or expired
}

// Page selects a part of a channel's subscribers. The pages from the first to one without a Next contain each
// subscriber at least once, maybe twice, if it exists all the time. A subscriber that is added or removed meanwhile may
// be missing, and after a fail-over of the storage the remaining pages may be incomplete.
type Page struct {
	Cursor Cursor // 0: the first page
	Limit  int    // approximate number of subscribers, MaxPage at most; 0: DefaultPage
}

// Cursor is where a page begins.
type Cursor uint64

// DefaultPage and MaxPage are the default and the largest Limit of a Page.
const (
	DefaultPage = 100
	MaxPage     = 250
)

// bounded returns the page with a limit that a store accepts.
func (p Page) bounded() Page {
	if p.Limit < 1 {
		p.Limit = DefaultPage
	}
	return Page{Cursor: p.Cursor, Limit: min(p.Limit, MaxPage)}
}
