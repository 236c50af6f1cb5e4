package storagetest

import (
	"testing"

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
