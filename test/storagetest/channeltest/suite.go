// Package channeltest is the conformance suite of channel.Store, and of matchmaking.Lookup, which is stored with
// channels.
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
// outcomes with a model; the other cases test lives, events, sizes, lost keys and concurrency, which it doesn't cover.
package channeltest

import (
	"strings"
	"testing"

	"github.com/tidemark-dev/tidemark/channel"
)

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
		{"ahead", aheadCases()},
		{"tail", tailCases()},
		{"keep", keepCases()},
		{"ack", ackCases()},
		{"closed", closedCases()},
		{"producers", producerCases()},
		{"create", createCases()},
		{"epochs", epochCases()},
		{"publish each", eachCases()},
		{"poll", pollCases()},
		{"lives", lifeCases()},
		{"describe", describeCases()},
		{"listen", listenCases()},
		{"purge", purgeCases()},
		{"delete", deleteCases()},
		{"seek", seekCases()},
		{"channels", listCases()},
		{"concurrent", concurrentCases()},
		{"model", modelCases()},
	}
}

// Run runs all cases as parallel subtests of t. It calls open once for each case, from the goroutine of the case, and
// uses the harness until the case ends.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	for _, a := range areas() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range a.cases {
				t.Run(c.Name, func(t *testing.T) {
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
	if !c.Clocks {
		c.Run(newTestChannel(t, h, "ch"))
		return
	}
	for i, start := range starts {
		t.Run(start.Name, func(t *testing.T) {
			t.Parallel()
			s := newTestChannel(t, h, channelNames[i])
			s.StartAt(start.At)
			c.Run(s)
		})
	}
}

// channelNames are valid names of unusual form or length, one for each start.
var channelNames = []string{"0", "Tide_mark.v1:a-b", "ch.clock/_a", strings.Repeat("seg/", channel.MaxChannelBytes/4-1) + "x"}
