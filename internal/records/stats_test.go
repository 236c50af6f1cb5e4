package records_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/records"
)

func TestWindowsOfTimeframes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 15, 16, 17, 18, time.UTC) // a Wednesday
	for name, f := range map[string]records.Timeframe{
		"2026-03-04T15:00:00Z": records.Hourly, "2026-03-04T00:00:00Z": records.Daily,
		"2026-03-02T00:00:00Z": records.Weekly,
	} {
		require.Equal(t, name, f.Start(at).Format(time.RFC3339))
		require.Equal(t, name, f.Start(f.Start(at)).Format(time.RFC3339))
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.SampledFrom(records.Timeframes).Draw(t, "timeframe")
		second := rapid.Int64Range(-1e10, 1e10)
		now, from, to := time.Unix(second.Draw(t, "now"), 0), time.Unix(second.Draw(t, "from"), 0),
			time.Unix(second.Draw(t, "to"), 0)
		start := f.Start(now)
		require.False(t, start.After(now))
		require.True(t, start.Add(f.Length).After(now))
		windows := f.Windows(from, to, now)
		require.LessOrEqual(t, len(windows), int(f.Keep/f.Length)+1)
		for i, w := range windows {
			require.Equal(t, f.Start(w), w)
			require.True(t, i == 0 || w.Sub(windows[i-1]) == f.Length)
			require.True(t, w.Add(f.Length).After(from) && !w.After(to) && !w.After(now) && w.Add(f.Keep).After(now))
		}
		require.Equal(t, []time.Time{start}, f.Windows(time.Time{}, time.Time{}, now))
	})
}

func TestStatsAreChecked(t *testing.T) {
	t.Parallel()
	for _, of := range []func(name, period string) (records.Series, error){records.MetricOf, records.StatsOf} {
		for slug, wrong := range map[string][2]string{
			"invalid-id": {"\n", "hourly"}, "invalid-timeframe": {"a", "hourly:3600"},
		} {
			_, err := of(wrong[0], wrong[1])
			requireSlug(t, slug, err)
		}
	}
	of, err := records.StatsOf("{a}", "weekly")
	require.NoError(t, err)
	s := records.NewStats(nil, records.StatsNames{})
	many := map[string]int64{}
	for i := range records.MaxStatsFields + 1 {
		many[fmt.Sprint(i)] = 1
	}
	for slug, values := range map[string]map[string]int64{
		"invalid-amount": {"a": records.MaxCounter + 1}, "too-many-fields": many, "invalid-id": {"": 1},
	} {
		_, err := s.Set(t.Context(), of, values)
		requireSlug(t, slug, err)
		_, err = s.Add(t.Context(), of, values, "")
		requireSlug(t, slug, err)
	}
	_, err = s.Set(t.Context(), of, map[string]int64{"a": -records.MaxCounter - 1})
	requireSlug(t, "invalid-amount", err)
	_, err = s.Set(t.Context(), of, nil)
	requireSlug(t, "invalid-amount", err)
	_, err = s.Add(t.Context(), of, map[string]int64{"a": 1}, "\n")
	requireSlug(t, "invalid-id", err)
	_, err = s.Range(t.Context(), of, time.Unix(2, 0), time.Unix(1, 0))
	requireSlug(t, "invalid-query", err)
}

func TestStatesAreChecked(t *testing.T) {
	t.Parallel()
	s := records.NewStates(nil)
	fields, many := map[string]string{"a": "b"}, map[string]string{}
	for i := range records.MaxStateFields + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for want, patches := range map[string][]records.StatePatch{
		"invalid-id": {
			{ID: "1", Set: fields},
			{Process: "a", Set: fields},
			{Process: "a", ID: "1", Set: map[string]string{"": ""}},
			{Process: "a", ID: "1", Delete: []string{"\x00"}},
		},
		"invalid-state": {
			{Process: "a", ID: "1"},
			{Process: "a", ID: "1", Set: fields, TTL: records.MinStateTTL - 1},
			{Process: "a", ID: "1", Set: fields, TTL: records.MaxStateTTL + 1},
			{Process: "a", ID: "1", Set: map[string]string{"a": strings.Repeat("x", records.MaxStateValue+1)}},
		},
		"too-many-fields": {{Process: "a", ID: "1", Set: many}},
	} {
		for _, p := range patches {
			_, err := s.Patch(t.Context(), p)
			requireSlug(t, want, err)
		}
	}
	_, err := s.Get(t.Context(), "", "1")
	requireSlug(t, "invalid-id", err)
	requireSlug(t, "invalid-id", s.Delete(t.Context(), "a", ""))
}
