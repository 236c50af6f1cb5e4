package recordstest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// series are a metric and statistics of each timeframe.
func series() (all []records.Series) {
	for _, f := range records.Timeframes {
		for _, fields := range []bool{false, true} {
			all = append(all, records.Series{Name: "a}:{b", Timeframe: f, Fields: fields})
		}
	}
	return all
}

// values returns values of a series' fields, or the last one of a metric.
func values(of records.Series, names []string, amounts ...int64) map[string]int64 {
	found := map[string]int64{}
	for i, amount := range amounts {
		name := ""
		if of.Fields {
			name = names[i]
		}
		found[name] = amount
	}
	return found
}

func (s *counterSubject) change(c records.StatsChange) (records.StatsWindow, error) {
	return s.stats.Change(s.t.Context(), c)
}

func (s *counterSubject) changed(c records.StatsChange) map[string]int64 {
	s.t.Helper()
	w, err := s.change(c)
	require.NoError(s.t, err)
	require.Equal(s.t, w.Start, c.Timeframe.Start(w.Start))
	require.Less(s.t, time.Since(w.Start), c.Timeframe.Length+time.Minute)
	return w.Values
}

// present returns the values of the current window.
func (s *counterSubject) present(of records.Series) map[string]int64 {
	s.t.Helper()
	windows, err := s.stats.Range(s.t.Context(), of, time.Time{}, time.Time{})
	require.NoError(s.t, err)
	if len(windows) == 0 {
		return nil
	}
	return windows[0].Values
}

func addsOnce(s *counterSubject) {
	names := []string{"_timestamp", "{x}"}
	for _, of := range series() {
		add := func(id string, amounts ...int64) map[string]int64 {
			return s.changed(records.StatsChange{Series: of, Values: values(of, names, amounts...), ID: id,
				Repeat: time.Hour})
		}
		require.Empty(s.t, s.present(of))
		for range 2 {
			require.Equal(s.t, values(of, names, 5, 5), add("one", 5, 5))
		}
		require.Equal(s.t, values(of, names, 3), add("two", -2))
		require.Equal(s.t, values(of, names, 3), add("one", 5), "what it is now")
		want := values(of, names, 3, 5)
		if !of.Fields {
			want = values(of, names, 3)
		}
		require.Equal(s.t, want, s.present(of))
		for range 2 {
			require.Equal(s.t, values(of, names, -7),
				s.changed(records.StatsChange{Series: of, Values: values(of, names, -7), Set: true}))
		}
		require.Equal(s.t, values(of, names, -6), add("three", 1))
	}
}

func addsAtOnce(s *counterSubject) {
	of := series()[1]
	var g sync.WaitGroup
	for i := range 50 {
		for range 2 {
			g.Go(func() {
				_, err := s.change(records.StatsChange{Series: of, Values: map[string]int64{"n": 1}, ID: fmt.Sprint(i),
					Repeat: time.Hour})
				if err != nil {
					s.t.Error(err)
				}
			})
		}
	}
	g.Wait()
	require.Equal(s.t, map[string]int64{"n": 50}, s.present(of))
}

func statsAreBounded(s *counterSubject) {
	names := []string{"a", "b"}
	for _, of := range series()[:2] {
		change := func(set bool, id string, amounts ...int64) error {
			_, err := s.change(records.StatsChange{Series: of, Values: values(of, names, amounts...), Set: set, ID: id,
				Repeat: time.Hour})
			return err
		}
		require.NoError(s.t, change(true, "", records.MaxCounter))
		for range 2 {
			require.ErrorIs(s.t, change(false, "over", 1), records.ErrCounterRange)
			require.ErrorIs(s.t, change(true, "", records.MaxCounter+1), records.ErrCounterRange)
		}
		require.NoError(s.t, change(false, "less", -records.MaxCounter))
		require.NoError(s.t, change(false, "least", -records.MaxCounter))
		require.ErrorIs(s.t, change(false, "under", -1), records.ErrCounterRange)
		require.Equal(s.t, values(of, names, -records.MaxCounter), s.present(of))
	}
	of := series()[1]
	require.ErrorIs(s.t, func() error {
		_, err := s.change(records.StatsChange{Series: of, Values: map[string]int64{"b": 1, "a": -1}, ID: "both",
			Repeat: time.Hour})
		return err
	}(), records.ErrCounterRange, "all or none")
	require.Equal(s.t, map[string]int64{"a": -records.MaxCounter}, s.present(of))
	for i := range records.MaxStatsFields - 1 {
		s.changed(records.StatsChange{Series: of, Values: map[string]int64{fmt.Sprint(i): 1}, Set: true})
	}
	_, err := s.change(records.StatsChange{Series: of, Values: map[string]int64{"one too many": 1, "a": 1}, Set: true})
	require.ErrorIs(s.t, err, records.ErrManyFields)
	require.Len(s.t, s.present(of), records.MaxStatsFields)
	require.Equal(s.t, int64(-records.MaxCounter), s.present(of)["a"])
	s.changed(records.StatsChange{Series: of, Values: map[string]int64{"a": 1}, Set: true})
}

func ranges(s *counterSubject) {
	for _, of := range series() {
		s.changed(records.StatsChange{Series: of, Values: values(of, []string{"a"}, 1), Set: true})
		now := of.Timeframe.Start(time.Now())
		oldest := of.Timeframe.Start(time.Now().Add(-of.Timeframe.Keep)).Add(of.Timeframe.Length)
		for i, start := range []time.Time{oldest, now.Add(-of.Timeframe.Length)} {
			s.earlier(of, start, int64(i+2))
		}
		found := func(from, to time.Time) (found []int64) {
			windows, err := s.stats.Range(s.t.Context(), of, from, to)
			require.NoError(s.t, err)
			for i, w := range windows {
				require.True(s.t, i == 0 || w.Start.After(windows[i-1].Start))
				for _, value := range w.Values {
					found = append(found, value)
				}
			}
			return found
		}
		never, end := time.Unix(0, 0), time.Now().Add(1000*time.Hour)
		require.Equal(s.t, []int64{2, 3, 1}, found(never, end), of.Timeframe.Name)
		require.Equal(s.t, []int64{2, 3, 1}, found(never, time.Time{}))
		require.Equal(s.t, []int64{2, 3}, found(never, now.Add(-time.Second)))
		require.Equal(s.t, []int64{3, 1}, found(now.Add(-time.Second), end))
		require.Equal(s.t, []int64{1}, found(time.Time{}, time.Time{}))
		require.Empty(s.t, found(never, never))
		require.Empty(s.t, found(end, end))
	}
}

func (s *counterSubject) patch(p records.StatePatch) map[string]string {
	s.t.Helper()
	p.Process, p.ID = "import:1", "}{"
	if p.TTL == 0 {
		p.TTL = time.Hour
	}
	state, err := s.states.Patch(s.t.Context(), p)
	require.NoError(s.t, err)
	if len(state.Fields) > 0 {
		require.WithinDuration(s.t, time.Now().Add(p.TTL), state.Expires, time.Minute)
		got, err := s.states.Get(s.t.Context(), p.Process, p.ID)
		require.NoError(s.t, err)
		require.Equal(s.t, state, got)
	}
	return state.Fields
}

func patches(s *counterSubject) {
	fields := func(pairs ...string) map[string]string {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	_, err := s.states.Get(s.t.Context(), "import:1", "}{")
	require.ErrorIs(s.t, err, records.ErrNoState)
	for range 2 {
		require.Equal(s.t, fields("step", "1", "_timestamp", ""),
			s.patch(records.StatePatch{Set: fields("step", "1", "_timestamp", "")}))
	}
	for range 2 {
		p := records.StatePatch{Set: fields("step", "2", "done\n", "é"), Delete: []string{"_timestamp", "none"},
			TTL: time.Minute}
		require.Equal(s.t, fields("step", "2", "done\n", "é"), s.patch(p))
	}
	_, err = s.states.Get(s.t.Context(), "import", "1:}{")
	require.ErrorIs(s.t, err, records.ErrNoState, "another one")
	require.Equal(s.t, fields("a", "b"), s.patch(records.StatePatch{Set: fields("a", "b"), Replace: true}))
	for range 2 {
		require.Empty(s.t, s.patch(records.StatePatch{Delete: []string{"a"}}))
		_, err = s.states.Get(s.t.Context(), "import:1", "}{")
		require.ErrorIs(s.t, err, records.ErrNoState)
	}
	s.patch(records.StatePatch{Set: fields("a", "b")})
	for range 2 {
		require.NoError(s.t, s.states.Delete(s.t.Context(), "import:1", "}{"))
		_, err = s.states.Get(s.t.Context(), "import:1", "}{")
		require.ErrorIs(s.t, err, records.ErrNoState)
	}
}

func statesAreBounded(s *counterSubject) {
	full := map[string]string{}
	for i := range records.MaxStateFields {
		full[fmt.Sprint(i)] = strings.Repeat("x", 100)
	}
	s.patch(records.StatePatch{Set: full})
	large := strings.Repeat("x", records.MaxStateValue)
	for _, p := range []records.StatePatch{
		{Set: map[string]string{"one too many": ""}},
		{Set: map[string]string{"1": large, "2": large, "3": large, "4": large}},
	} {
		p.Process, p.ID, p.TTL = "import:1", "}{", time.Hour
		_, err := s.states.Patch(s.t.Context(), p)
		require.ErrorIs(s.t, err, records.ErrManyFields)
		state, err := s.states.Get(s.t.Context(), p.Process, p.ID)
		require.NoError(s.t, err)
		require.Equal(s.t, full, state.Fields)
	}
	full["new"] = full["1"]
	delete(full, "1")
	require.Equal(s.t, full, s.patch(records.StatePatch{Set: map[string]string{"new": full["new"]}, Delete: []string{"1"}}))
}
