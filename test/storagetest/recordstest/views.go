package recordstest

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// ids are IDs of views, some of which imitate other keys.
var ids = []string{"7", "a:b", "{x}", "}:{", "%7D", "анна é", "*"}

func (s *counterSubject) add(flush records.ViewFlush, views int64, ids ...string) {
	s.t.Helper()
	for i, err := range s.tryAdd(flush, views, ids...) {
		require.NoError(s.t, err, ids[i])
	}
}

func (s *counterSubject) tryAdd(flush records.ViewFlush, views int64, ids ...string) []error {
	s.t.Helper()
	counts := make([]records.ViewCount, len(ids))
	for i, id := range ids {
		counts[i] = records.ViewCount{ID: id, Views: views}
	}
	errs := s.views.Add(s.t.Context(), flush, counts)
	require.Len(s.t, errs, len(ids))
	return errs
}

// requireViews expects the same number of views for each ID.
func (s *counterSubject) requireViews(counted, migrated int64, ids ...string) {
	s.t.Helper()
	totals, err := s.views.Totals(s.t.Context(), ids)
	require.NoError(s.t, err)
	require.Len(s.t, totals, len(ids))
	for i, id := range ids {
		require.Equal(s.t, records.ViewTotal{ID: id, Counted: counted, Migrated: migrated}, totals[i])
	}
}

func countsOnce(s *counterSubject) {
	first, two := records.ViewFlush{Process: "a:1", Number: 1}, records.ViewFlush{Process: "a:1", Number: 2}
	s.requireViews(0, 0, ids...)
	for range 2 {
		s.add(first, 3, ids...)
	}
	s.requireViews(3, 0, ids...)
	s.add(records.ViewFlush{Process: "b", Number: 1}, 1, ids[0])
	s.add(two, 2, ids...)
	s.add(first, 3, ids...)
	s.requireViews(6, 0, ids[0])
	s.requireViews(5, 0, ids[1:]...)
	require.Empty(s.t, s.views.Add(s.t.Context(), first, nil))
}

func countsMany(s *counterSubject) {
	const processes, flushes = 4, 5
	all := make([]string, 1200) // more than a pipeline has
	for i := range all {
		all[i] = fmt.Sprint("id", i)
	}
	var g sync.WaitGroup
	for p := range processes {
		g.Go(func() {
			for n := range flushes {
				for range 2 { // as after a lost answer
					s.add(records.ViewFlush{Process: fmt.Sprint(p), Number: uint64(n + 1)}, 1, all...)
				}
			}
		})
	}
	g.Wait()
	s.requireViews(processes*flushes, 0, all...)
}

func countsAreBounded(s *counterSubject) {
	s.add(records.ViewFlush{Process: "a", Number: 1}, records.MaxCounter-1, "full", "other")
	require.NoError(s.t, s.h.SpoilViews(s.t.Context(), "foreign"))
	for range 2 {
		errs := s.tryAdd(records.ViewFlush{Process: "a", Number: 2}, 2, "full", "fine", "foreign")
		require.ErrorIs(s.t, errs[0], records.ErrCounterRange)
		require.NoError(s.t, errs[1], "others are counted")
		require.ErrorIs(s.t, errs[2], records.ErrCounterRange)
	}
	s.requireViews(records.MaxCounter-1, 0, "full", "other")
	s.requireViews(2, 0, "fine")
	s.add(records.ViewFlush{Process: "a", Number: 3}, 1, "full")
	s.requireViews(records.MaxCounter, 0, "full")
}

// part imports a part, and returns the state.
func (s *counterSubject) part(at int64, total int, views map[string]int64) records.Import {
	s.t.Helper()
	state, err := s.views.Import(s.t.Context(), records.ImportPart{At: at, Total: total, Views: views})
	require.NoError(s.t, err)
	return state
}

func imports(s *counterSubject) {
	s.add(records.ViewFlush{Process: "a", Number: 1}, 1, ids...)
	first, rest := map[string]int64{ids[0]: 10}, map[string]int64{}
	for _, id := range ids[1:] {
		rest[id] = 10
	}
	for range 2 {
		require.Equal(s.t, records.Import{Records: 1}, s.part(100, len(ids), first))
		s.requireViews(1, 0, ids...)
	}
	for range 2 {
		for _, part := range []map[string]int64{rest, first} {
			require.Equal(s.t, records.Import{Records: len(ids), Complete: true, Current: true},
				s.part(100, len(ids), part))
			s.requireViews(1, 10, ids...)
		}
	}
	s.requireViews(0, 0, "other")

	require.Equal(s.t, records.Import{Records: 1, Complete: true}, s.part(50, 1, map[string]int64{"other": 5}),
		"an earlier one")
	s.requireViews(1, 10, ids...)
	require.Equal(s.t, records.Import{Records: 1, Complete: true, Current: true},
		s.part(200, 1, map[string]int64{ids[0]: 20}))
	s.requireViews(1, 20, ids[0])
	s.requireViews(1, 0, ids[1:]...)
}

func importsLie(s *counterSubject) {
	views := map[string]int64{"a": 1, "b": 2}
	s.part(100, 3, views)
	for _, wrong := range []records.ImportPart{
		{At: 100, Total: 4, Views: views},
		{At: 100, Total: 2, Views: views},
		{At: 100, Total: 3, Views: map[string]int64{"a": 1, "c": 1, "d": 1}},
		{At: 101, Total: 1, Views: views},
	} {
		_, err := s.views.Import(s.t.Context(), wrong)
		require.ErrorIs(s.t, err, records.ErrImportConflict)
	}
	s.requireViews(0, 0, "a", "c", "d")
	require.Equal(s.t, records.Import{Records: 3, Complete: true, Current: true},
		s.part(100, 3, map[string]int64{"c": 3}))
	s.requireViews(0, 3, "c")
}

func importsLarge(s *counterSubject) {
	views := map[string]int64{}
	for i := range records.MaxImportPart {
		views[fmt.Sprint("id", i)] = int64(i)
	}
	require.True(s.t, s.part(100, records.MaxImportPart, views).Current)
	s.requireViews(0, 4321, "id4321")
	slugs := map[string]string{}
	for id := range views {
		slugs["slug-"+id] = id
	}
	require.NoError(s.t, s.views.AddSlugs(s.t.Context(), slugs))
	names := slices.Sorted(maps.Keys(slugs))[:records.MaxViewIDs]
	found, err := s.views.Resolve(s.t.Context(), names)
	require.NoError(s.t, err)
	for i, name := range names {
		require.Equal(s.t, slugs[name], found[i])
	}
}

func resolves(s *counterSubject) {
	resolve := func(slugs ...string) []string {
		found, err := s.views.Resolve(s.t.Context(), slugs)
		require.NoError(s.t, err)
		return found
	}
	require.Equal(s.t, []string{"", ""}, resolve("a", "b"))
	for range 2 {
		require.NoError(s.t, s.views.AddSlugs(s.t.Context(), map[string]string{"a": "1", "_total": "}:{"}))
	}
	require.Equal(s.t, []string{"}:{", "", "1"}, resolve("_total", "b", "a"))
	require.NoError(s.t, s.views.AddSlugs(s.t.Context(), map[string]string{"a": "2"}))
	require.Equal(s.t, []string{"2"}, resolve("a"))
}
