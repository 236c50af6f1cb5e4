package channeltest

import "github.com/tidemark-dev/tidemark/clock"

// testCase is one rule that every store must follow.
type testCase struct {
	Name   string // the rule
	Clocks bool   // the rule depends on clocks: run it at every start
	Run    func(s *testChannel)
}

// starts are the clocks at which channels begin, in cases that depend on clocks. A few messages cross an edge of the
// arithmetic.
var starts = []struct {
	Name string
	At   clock.Clock
}{
	{"new", 0},
	{"over zero", -3},
	{"over 10^14", 99_999_999_999_997},
	{"over the wrap", clock.Max - 2},
}
