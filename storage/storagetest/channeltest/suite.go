// Package channeltest is the conformance suite of channel.Store, and of matchmaking.Lookup, which is kept with channels.
//
// A store's test calls [Run] with a function that returns a [Harness]: a store without any channel, and access behind it
// for what only time and accidents do otherwise, such as messages that expire or a clock close to its wrap.
//
//	func TestConformance(t *testing.T) {
//		t.Parallel()
//		channeltest.Run(t, func(t testing.TB) channeltest.Harness { return newHarness(t) })
//	}
//
// Each case states one rule. A rule that depends on clocks is tested from several starts: on a new channel, across
// zero, where numbers get their 15th digit, and across the wrap. If a case fails, its output also says what a
// user of the service would notice.
package channeltest

import (
	"context"
	"testing"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
)

// testCase is one rule that every store keeps.
type testCase struct {
	name   string // the rule
	notice string // what a user would notice where it is broken
	ring   bool   // the rule depends on clocks: try it at every start
	run    func(s *subject)
}

// area is the cases of one part of the interface.
type area struct {
	name  string
	cases []testCase
}

func areas() []area {
	return []area{
		{"publish", publishCases()},
		{"batch", batchCases()},
		{"content", contentCases()},
		{"subscribe", subscribeCases()},
		{"unsubscribe", unsubscribeCases()},
		{"fetch", fetchCases()},
		{"gaps", gapCases()},
		{"keep", keepCases()},
		{"ack", ackCases()},
		{"next", nextCases()},
		{"wrap", wrapCases()},
		{"epochs", epochCases()},
		{"lives", lifeCases()},
		{"describe", describeCases()},
		{"listen", listenCases()},
		{"concurrent", concurrentCases()},
		{"model", modelCases()},
	}
}

// starts are the clocks at which the channels of a ring case begin, chosen so that a few messages lead over an
// edge of the arithmetic.
var starts = []struct {
	name string
	at   clock.Clock
}{
	{"new", 0},
	{"over zero", -3},
	{"over 10^14", 99_999_999_999_997},
	{"over the wrap", clock.Max - 2},
}

// Run runs all cases as parallel subtests of t. open is called once for each case, from its goroutine; what it
// returns is used until that case ends.
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
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("A user would notice: %s", c.notice)
		}
	})
	h := open(t)
	if !c.ring {
		c.run(newSubject(t, h, "ch"))
		return
	}
	for i, start := range starts {
		t.Run(start.name, func(t *testing.T) {
			t.Parallel()
			s := newSubject(t, h, channelNames[i])
			s.wind(start.at)
			c.run(s)
		})
	}
}

// channelNames are names at the limits of what a channel may be called, one for each start.
var channelNames = []string{"0", "Tide_mark.v1:a-b", "ch.clock", longName}

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
