package channel

import (
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
)

// Draft is a message on its way in.
type Draft struct {
	ID      string // the publisher's; empty: the service makes a ULID
	Content []byte // valid JSON, kept byte for byte; the callee copies what it keeps
}

// Published is what became of a Draft.
type Published struct {
	ID        string
	Clock     clock.Clock // where the message stands; for a duplicate, where the first one stands
	Duplicate bool        // the ID was published before and its record is alive: nothing was changed
}

// Message is a message as a subscriber gets it. It may be shared by many readers: nobody writes to it.
type Message struct {
	ID          string
	Clock       clock.Clock
	Content     []byte    // JSON, byte for byte as it was published
	PublishedAt time.Time // Redis time, to the millisecond; zero where the predecessor stored the message
}

// Position is a point in one life of a channel.
type Position struct {
	Epoch ulid.ULID
	Clock clock.Clock
}

// Batch is what a store's fetch found after a subscriber's mark.
type Batch struct {
	Epoch    ulid.ULID
	Mark     clock.Clock // the subscriber's mark at the time
	Through  clock.Clock // everything after Mark and up to here is in Messages or expired; Mark where nothing stood after it
	Clock    clock.Clock // the channel's clock at the time; Through != Clock: there is more
	Messages []Message
	Expired  uint64 // how many messages between Mark and Through were passed over because they are gone
}

// empty reports whether there is nothing to deliver.
func (b Batch) empty() bool { return len(b.Messages) == 0 && b.Expired == 0 }

// From says where a new subscriber's mark is put.
type From struct {
	Start Start
	Clock clock.Clock // for StartAt: the mark itself; the first message read is the one after it
}

// Start is the kind of a From.
type Start int

func (f From) check() error {
	switch {
	case f.Start < StartLatest || f.Start > StartAt:
		return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidFrom, Field: "/from", Detail: "from is neither latest, earliest nor a clock"}
	case f.Start == StartAt && !f.Clock.Valid():
		return &fault.Error{
			Kind: fault.Invalid, Slug: fault.SlugInvalidFrom, Field: "/from",
			Detail: fmt.Sprintf("from is %d, a clock is from %d to %d", f.Clock, clock.Min, clock.Max),
		}
	}
	return nil
}

// The kinds of From.
const (
	StartLatest   Start = iota // after everything published so far
	StartEarliest              // before the oldest message alive
	StartAt                    // at a clock
)

// Subscription is the outcome of a subscribe.
type Subscription struct {
	Created  bool // false: the subscriber was there already, and its mark was not moved
	Position      // of the subscriber's mark
}

// Description is what is known of a channel.
type Description struct {
	Position               // the channel's clock and epoch
	Oldest   clock.Clock   // the oldest message alive; meaningful where Live is not zero
	Live     uint64        // how many clocks there are from Oldest to the channel's clock
	TTL      time.Duration // what is left of the channel's life without activity
	// Names is how many subscribers there are, with those whose life has ended and whose name hasn't been dropped yet. A
	// description drops such names on its page, a subscribe some; they never stay more than the others for long.
	Names       uint64
	Subscribers []SubscriberLag // one page, by name
	Next        Cursor          // of the next page; 0: this was the last
}

// SubscriberLag is a subscriber's mark and how far it is behind.
type SubscriberLag struct {
	Name string
	Mark clock.Clock
	Lag  uint64 // messages published after the mark, alive or expired
}

// Page is a part of a channel's subscribers. All pages together, from the first to one without a Next, have every
// subscriber that is there all the time at least once. One that comes or goes meanwhile may be missing, and one may be on
// two pages. A fail-over of the storage can make the rest of the pages incomplete.
type Page struct {
	Cursor Cursor // 0: the first page
	Limit  int    // subscribers on it, about: a page can have more or fewer, even none; 0: DefaultPage; MaxPage at most
}

// Cursor is where a page begins.
type Cursor uint64

// DefaultPage and MaxPage are how many subscribers are on a page, about, where none is asked for, and at most.
const (
	DefaultPage = 100
	MaxPage     = 250
)

// bounded returns the page with a limit that a store may be asked for.
func (p Page) bounded() Page {
	if p.Limit < 1 {
		p.Limit = DefaultPage
	}
	p.Limit = min(p.Limit, MaxPage)
	return p
}
