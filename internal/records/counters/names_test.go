package counters_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records/counters"
)

// anyStats accepts all changes.
type anyStats struct{}

func (anyStats) Change(_ context.Context, c counters.Change) (counters.Window, error) {
	return counters.Window{Values: c.Values}, nil
}

func (anyStats) Range(context.Context, counters.Series, time.Time, time.Time) ([]counters.Window, error) {
	return nil, nil
}

// TestNames: a site that names its statistics has these only.
func TestNames(t *testing.T) {
	t.Parallel()
	named := counters.Names{
		Entities: []counters.Entity{{Name: "orders", Fields: []string{"created", "paid"}}, {Name: "users"}},
		Metrics:  []string{"page_views"},
	}
	require.NoError(t, named.Check())
	stats := func(name string) counters.Series {
		s, err := counters.StatsOf(name, "daily")
		require.NoError(t, err)
		return s
	}
	metric := func(name string) counters.Series {
		s, err := counters.MetricOf(name, "daily")
		require.NoError(t, err)
		return s
	}
	none := counters.Names{Entities: []counters.Entity{}, Metrics: []string{}}
	for _, c := range []struct {
		names counters.Names
		of    counters.Series
		field string
		want  error
	}{
		{named, stats("orders"), "paid", nil},
		{named, stats("users"), "any", nil},
		{named, stats("topics"), "paid", counters.ErrNoEntity},
		{named, metric("page_views"), "", nil},
		{named, metric("orders"), "", counters.ErrNoMetric},
		{none, stats("orders"), "paid", counters.ErrNoEntity},
		{none, metric("page_views"), "", counters.ErrNoMetric},
		{counters.Names{}, stats("topics"), "any", nil},
		{counters.Names{}, metric("any"), "", nil},
	} {
		s := counters.NewStats(anyStats{}, c.names)
		_, err := s.Add(t.Context(), c.of, map[string]int64{c.field: 1}, "")
		require.ErrorIs(t, err, c.want)
		_, err = s.Set(t.Context(), c.of, map[string]int64{c.field: 1})
		require.ErrorIs(t, err, c.want)
		_, err = s.Range(t.Context(), c.of, time.Time{}, time.Time{})
		require.ErrorIs(t, err, c.want)
	}
	_, err := counters.NewStats(nil, named).Set(t.Context(), stats("orders"), map[string]int64{"lost": 1})
	requireSlug(t, "invalid-id", err)
	require.EqualError(t, err, `"lost" is no field of the statistics of orders`)
}

// entity returns the names of a site with an entity that has some fields.
func entity(fields []string) counters.Names {
	return counters.Names{Entities: []counters.Entity{{Name: "a", Fields: fields}}}
}

func TestRefusedNames(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]counters.Names{
		"statistics[0]: name is empty":             {Entities: []counters.Entity{{}}},
		"statistics[1]: a is there twice":          {Entities: []counters.Entity{{Name: "a"}, {Name: "a"}}},
		"statistics[0].fields[1]: x is there":      entity([]string{"x", "x"}),
		"statistics[0].fields: has 65 names, at":   entity(make([]string, 65)),
		"statistics: has 101 names, at most 100":   {Entities: make([]counters.Entity, 101)},
		"metrics[0]: name has the control charact": {Metrics: []string{"\n"}},
		"metrics: has 101 names, at most 100 are":  {Metrics: make([]string, 101)},
	} {
		require.ErrorContains(t, n.Check(), want)
	}
}
