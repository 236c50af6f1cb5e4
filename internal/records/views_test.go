package records_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// memory is an in-memory store of views that can lose answers.
type memory struct {
	records.ViewStore
	mu      sync.Mutex
	views   map[string]int64
	last    map[string]uint64 // flush by ID
	flushes int
	broken  error // of all calls
	lose    bool  // lose answers: the counts are added
}

func (m *memory) Add(ctx context.Context, f records.ViewFlush, counts []records.ViewCount) []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := make([]error, len(counts))
	m.flushes++
	for i, c := range counts {
		switch {
		case ctx.Err() != nil:
			errs[i] = ctx.Err()
			continue
		case c.ID == "full":
			errs[i] = records.ErrCounterRange
			continue
		case m.broken != nil && !m.lose:
			errs[i] = m.broken
			continue
		case m.last[c.ID] < f.Number:
			m.views[c.ID] += c.Views
			m.last[c.ID] = f.Number
		}
		errs[i] = m.broken
	}
	return errs
}

func (m *memory) breaks(err error, lose bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken, m.lose = err, lose
}

func (m *memory) state() (views map[string]int64, flushes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.views), m.flushes
}

// counting runs a test with views that are written, and stops them at its end.
func counting(t *testing.T, test func(t *testing.T, m *memory, v *records.Views)) (m *memory, log string) {
	t.Helper()
	var text bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		m = &memory{views: map[string]int64{}, last: map[string]uint64{}}
		v := records.NewViews(m, slog.New(slog.NewTextHandler(&text, nil)))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- v.Run(ctx) }()
		defer func() {
			stop()
			require.NoError(t, <-done)
		}()
		test(t, m, v)
	})
	return m, text.String()
}

func view(id string) records.ViewCount { return records.ViewCount{ID: id, Views: 1} }

func TestViewsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	m, log := counting(t, func(t *testing.T, m *memory, v *records.Views) {
		<-time.After(time.Hour)
		for range 1000 {
			require.NoError(t, v.Count(view("a"), records.ViewCount{ID: "b", Views: 2}))
		}
		synctest.Wait()
		views, flushes := m.state()
		require.Empty(t, views)
		require.Zero(t, flushes, "what is idle costs nothing")
		<-time.After(records.FlushEvery)
		synctest.Wait()
		views, flushes = m.state()
		require.Equal(t, map[string]int64{"a": 1000, "b": 2000}, views)
		require.Equal(t, 1, flushes)
		require.NoError(t, v.Count(view("a")))
	})
	require.Equal(t, map[string]int64{"a": 1001, "b": 2000}, m.views, "the rest at the end")
	require.Empty(t, log)
}

func TestViewsWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	m, log := counting(t, func(t *testing.T, m *memory, v *records.Views) {
		m.breaks(fault.ErrUnavailable, true)
		for range 30 {
			require.NoError(t, v.Count(view("a"), view("full")))
			<-time.After(records.FlushEvery)
		}
		m.breaks(fault.ErrStorageFull, false)
		require.NoError(t, v.Count(view("b")))
		<-time.After(10 * records.FlushEvery)
		m.breaks(nil, false)
		<-time.After(10 * records.FlushEvery)
		synctest.Wait()
		views, _ := m.state()
		require.Equal(t, map[string]int64{"a": 30, "b": 1}, views, "each once")
	})
	require.Equal(t, map[string]int64{"a": 30, "b": 1}, m.views)
	require.Equal(t, 1, strings.Count(log, "cannot write views"), log)
	require.Equal(t, 1, strings.Count(log, "views are written again"))
	require.Equal(t, 2, strings.Count(log, `"views can't be added to their counter" id=full`), "the others are written")
}

func TestViewsThatAreLost(t *testing.T) {
	t.Parallel()
	_, log := counting(t, func(t *testing.T, m *memory, v *records.Views) {
		m.breaks(errors.New("gone"), false)
		require.NoError(t, v.Count(view("a"), view("b")))
		<-time.After(records.FlushEvery)
		synctest.Wait()
		require.NoError(t, v.Count(view("a"), view("c")))
	})
	require.Contains(t, log, `msg="views are lost" ids=2`)
}

// A flood of IDs takes bounded memory: counts beyond the bound are refused, and all accepted ones are written.
//
//nolint:paralleltest // it measures the memory of the process
func TestFloodOfViews(t *testing.T) {
	const flood = 200_000
	counted, last := int64(0), ""
	m, _ := counting(t, func(t *testing.T, m *memory, v *records.Views) {
		m.breaks(fault.ErrUnavailable, false)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range flood {
			id := fmt.Sprintf("%0128d", i)
			err := v.Count(view(id))
			if err == nil {
				counted, last = counted+1, id
				continue
			}
			var f *fault.Error
			require.ErrorAs(t, err, &f)
			require.Equal(t, fault.SlugOverloaded, f.Slug)
			require.Equal(t, records.FlushEvery, f.RetryAfter)
		}
		require.NoError(t, v.Count(view(last)), "one that is there needs no room")
		runtime.GC()
		runtime.ReadMemStats(&after)
		require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(16<<20))
		m.breaks(nil, false)
	})
	require.LessOrEqual(t, counted, int64(2*records.MaxPendingViews))
	sum := int64(0)
	for _, views := range m.views {
		sum += views
	}
	require.Equal(t, counted+1, sum)
}

func TestViewsAreChecked(t *testing.T) {
	t.Parallel()
	v := records.NewViews(nil, nil)
	many := slices.Repeat([]records.ViewCount{view("a")}, records.MaxViewIDs+1)
	for want, counts := range map[string][][]records.ViewCount{
		"invalid-id": {{view("")}, {view("\n")}, {view("_timestamp")}, {view("_total")},
			{view("a"), view(strings.Repeat("x", 129))}},
		"invalid-amount": {{}, many, {{ID: "a"}}, {{ID: "a", Views: -1}}, {{ID: "a", Views: records.MaxViews + 1}}},
	} {
		for _, some := range counts {
			requireSlug(t, want, v.Count(some...))
		}
	}
	for _, ids := range [][]string{nil, slices.Repeat([]string{"a"}, records.MaxViewIDs+1)} {
		_, err := v.Totals(t.Context(), ids, nil)
		requireSlug(t, "invalid-amount", err)
		_, err = v.Totals(t.Context(), nil, ids)
		requireSlug(t, "invalid-amount", err)
	}
	for _, id := range []string{"", "_total"} {
		_, err := v.Totals(t.Context(), []string{id}, nil)
		requireSlug(t, "invalid-id", err)
	}
}

func requireSlug(t *testing.T, slug string, err error) {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, slug, string(f.Slug), err)
}

func TestImportsAreChecked(t *testing.T) {
	t.Parallel()
	v := records.NewViews(nil, nil)
	now, views := time.Now().Unix(), map[string]int64{"a": 0, "b": 1}
	for name, p := range map[string]records.ImportPart{
		"no time":        {Total: 2, Views: views},
		"the future":     {At: now + 48*3600, Total: 2, Views: views},
		"no total":       {At: now, Views: views},
		"a large total":  {At: now, Total: records.MaxImport + 1, Views: views},
		"a low total":    {At: now, Total: 1, Views: views},
		"no records":     {At: now, Total: 2},
		"negative views": {At: now, Total: 2, Views: map[string]int64{"a": -1}},
		"huge views":     {At: now, Total: 2, Views: map[string]int64{"a": records.MaxCounter + 1}},
	} {
		_, err := v.Import(t.Context(), p)
		require.Error(t, err, name)
		requireSlug(t, "invalid-import", err)
	}
	for _, id := range []string{"_timestamp", "_total", ""} {
		_, err := v.Import(t.Context(), records.ImportPart{At: now, Total: 2, Views: map[string]int64{id: 1}})
		requireSlug(t, "invalid-id", err)
		requireSlug(t, "invalid-id", v.AddSlugs(t.Context(), map[string]string{"slug": id}))
	}
	requireSlug(t, "invalid-import", v.AddSlugs(t.Context(), nil))
}
