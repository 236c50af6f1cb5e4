package recordstest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
	"github.com/tidemark-dev/tidemark/test/storagetest"
)

// CounterHarness holds stores for a single case, with direct access to their data.
type CounterHarness interface {
	Views() records.ViewStore
	Stats() records.StatsStore
	States() records.StateStore
	// SpoilViews replaces an ID's counter by a value that isn't one.
	SpoilViews(ctx context.Context, id string) error
	// Earlier writes a value of the metric, or of the field "a", in a past window.
	Earlier(ctx context.Context, of records.Series, start time.Time, value int64) error
}

// RunCounters runs all cases as parallel subtests of t, each on a harness of its own.
func RunCounters(t *testing.T, open func(t testing.TB) CounterHarness) {
	t.Helper()
	storagetest.Run(t, counterCases, func(t testing.TB) *counterSubject {
		h := open(t)
		return &counterSubject{t: t, h: h, views: h.Views(), stats: h.Stats(), states: h.States()}
	})
}

// counterSubject holds stores, with the calls that cases make. An unexpected error fails the case.
type counterSubject struct {
	t      testing.TB
	h      CounterHarness
	views  records.ViewStore
	stats  records.StatsStore
	states records.StateStore
}

var counterCases = []storagetest.Case[*counterSubject]{
	{Name: "views of a flush are counted once", Notice: "views are counted twice after a lost answer", Run: countsOnce},
	{Name: "processes count together", Notice: "views are lost or counted twice under load", Run: countsMany},
	{Name: "a counter that is full or none stays", Notice: "a counter wraps, or one bad key stops all",
		Run: countsAreBounded},
	{Name: "an import is read when it is whole", Notice: "a repeated import doubles views, or half of one is shown",
		Run: imports},
	{Name: "an import that lies is refused", Notice: "two files are mixed under one timestamp", Run: importsLie},
	{Name: "a part is as large as it may be", Notice: "a large site can't import", Run: importsLarge},
	{Name: "slugs stand for IDs", Notice: "a page by slug has no views", Run: resolves},
	{Name: "an addition is made once", Notice: "a counter is wrong after a lost answer", Run: addsOnce},
	{Name: "additions are atomic", Notice: "counters lose additions under load", Run: addsAtOnce},
	{Name: "statistics are bounded", Notice: "a counter wraps, or a window has a million fields", Run: statsAreBounded},
	{Name: "a range has the windows that are kept", Notice: "a chart lacks hours", Run: ranges},
	{Name: "a state is changed field by field", Notice: "a worker overwrites what another has written", Run: patches},
	{Name: "states are bounded", Notice: "a state takes the memory of Redis", Run: statesAreBounded},
}

func (s *counterSubject) earlier(of records.Series, start time.Time, value int64) {
	s.t.Helper()
	require.NoError(s.t, s.h.Earlier(s.t.Context(), of, start, value))
}
