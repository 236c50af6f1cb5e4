// Package channeltest is the conformance suite of channel.Store, and of matchmaking.Lookup, which is kept with channels.
//
// A store's test calls [Run] with a function that returns a [Harness]: an empty store, and direct access to
// its data, to expire messages or to set a clock close to its wrap.
//
//	func TestConformance(t *testing.T) {
//		t.Parallel()
//		channeltest.Run(t, func(t testing.TB) channeltest.Harness { return newHarness(t) })
//	}
//
// Each case states one rule. A rule that depends on clocks is tested from several starts: on a new channel, across
// zero, from 14 to 15 digits, and across the wrap. The model case makes random calls and compares the
// outcomes with a model; the other cases test what it doesn't reach: lives, events, sizes, lost keys and concurrency.
package channeltest

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// testCase is one rule that every store must follow.
type testCase struct {
	name   string // the rule
	clocks bool   // the rule depends on clocks: run it at every start
	run    func(s *subject)
}

// area holds the cases of one part of the interface.
type area struct {
	name  string
	cases []testCase
}

func areas() []area {
	return []area{
		{"publish", publishCases()},
		{"content", contentCases()},
		{"subscribe", subscribeCases()},
		{"fetch", fetchCases()},
		{"gaps", gapCases()},
		{"keep", keepCases()},
		{"ack", ackCases()},
		{"epochs", epochCases()},
		{"publish each", eachCases()},
		{"lives", lifeCases()},
		{"describe", describeCases()},
		{"listen", listenCases()},
		{"concurrent", concurrentCases()},
		{"model", modelCases()},
	}
}

// starts are the clocks at which channels begin, in cases that depend on clocks. A few messages cross an edge of the
// arithmetic.
var starts = []struct {
	name string
	at   clock.Clock
}{
	{"new", 0},
	{"over zero", -3},
	{"over 10^14", 99_999_999_999_997},
	{"over the wrap", clock.Max - 2},
}

// Run runs all cases as parallel subtests of t. It calls open once for each case, from the goroutine of the case, and
// uses the harness until the case ends.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	for _, a := range areas() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range a.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					runCase(t, c, open)
				})
			}
		})
	}
}

func runCase(t *testing.T, c testCase, open func(t testing.TB) Harness) {
	t.Helper()
	h := open(t)
	if !c.clocks {
		c.run(newSubject(t, h, "ch"))
		return
	}
	for i, start := range starts {
		t.Run(start.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, h, channelNames[i])
			s.startAt(start.at)
			c.run(s)
		})
	}
}

// channelNames are valid names of unusual form or length, one for each start.
var channelNames = []string{"0", "Tide_mark.v1:a-b", "ch.clock", longName}

// Harness is a store that no other case uses, and direct access to its data. Several goroutines may call its methods at
// the same time. It is closed at the end of the test that it was made for.
type Harness interface {
	// Store returns the store.
	Store() channel.Store
	// SetClock overwrites the clock of a channel that exists, and changes nothing else, nor the clock's life.
	SetClock(ctx context.Context, channel string, c clock.Clock) error
	// Expire removes parts of a channel, as the end of their lives does. Without parts it removes the whole channel.
	Expire(ctx context.Context, channel string, parts ...Part) error
	// Life returns the rest of a part's life, zero if the part doesn't exist. It returns an error if the life has no end.
	Life(ctx context.Context, channel string, p Part) (time.Duration, error)
	// SetLife sets the rest of a part's life. It returns an error if the part doesn't exist.
	SetLife(ctx context.Context, channel string, p Part, left time.Duration) error
}

// Part is one item that a store keeps of a channel, with its own life.
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
