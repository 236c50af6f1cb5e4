package records_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/records"
)

// anyStats accepts all changes.
type anyStats struct{}

func (anyStats) Change(_ context.Context, c records.StatsChange) (records.StatsWindow, error) {
	return records.StatsWindow{Values: c.Values}, nil
}

func (anyStats) Range(context.Context, records.Series, time.Time, time.Time) ([]records.StatsWindow, error) {
	return nil, nil
}

// TestNames: a site that names its statistics has these only.
func TestNames(t *testing.T) {
	t.Parallel()
	named := records.StatsNames{
		Entities: []records.StatsEntity{{Name: "orders", Fields: []string{"created", "paid"}}, {Name: "users"}},
		Metrics:  []string{"page_views"},
	}
	require.NoError(t, named.Check())
	stats := func(name string) records.Series {
		s, err := records.StatsOf(name, "daily")
		require.NoError(t, err)
		return s
	}
	metric := func(name string) records.Series {
		s, err := records.MetricOf(name, "daily")
		require.NoError(t, err)
		return s
	}
	none := records.StatsNames{Entities: []records.StatsEntity{}, Metrics: []string{}}
	for _, c := range []struct {
		names records.StatsNames
		of    records.Series
		field string
		want  error
	}{
		{named, stats("orders"), "paid", nil},
		{named, stats("users"), "any", nil},
		{named, stats("topics"), "paid", records.ErrNoEntity},
		{named, metric("page_views"), "", nil},
		{named, metric("orders"), "", records.ErrNoMetric},
		{none, stats("orders"), "paid", records.ErrNoEntity},
		{none, metric("page_views"), "", records.ErrNoMetric},
		{records.StatsNames{}, stats("topics"), "any", nil},
		{records.StatsNames{}, metric("any"), "", nil},
	} {
		s := records.NewStats(anyStats{}, c.names)
		_, err := s.Add(t.Context(), c.of, map[string]int64{c.field: 1}, "")
		require.ErrorIs(t, err, c.want)
		_, err = s.Set(t.Context(), c.of, map[string]int64{c.field: 1})
		require.ErrorIs(t, err, c.want)
		_, err = s.Range(t.Context(), c.of, time.Time{}, time.Time{})
		require.ErrorIs(t, err, c.want)
	}
	_, err := records.NewStats(nil, named).Set(t.Context(), stats("orders"), map[string]int64{"lost": 1})
	requireSlug(t, "invalid-id", err)
	require.EqualError(t, err, `"lost" is no field of the statistics of orders`)
}

// entity returns the names of a site with an entity that has some fields.
func entity(fields []string) records.StatsNames {
	return records.StatsNames{Entities: []records.StatsEntity{{Name: "a", Fields: fields}}}
}

func TestRefusedNames(t *testing.T) {
	t.Parallel()
	for want, n := range map[string]records.StatsNames{
		"statistics[0]: name is empty":             {Entities: []records.StatsEntity{{}}},
		"statistics[1]: a is there twice":          {Entities: []records.StatsEntity{{Name: "a"}, {Name: "a"}}},
		"statistics[0].fields[1]: x is there":      entity([]string{"x", "x"}),
		"statistics[0].fields: has 65 names, at":   entity(make([]string, 65)),
		"statistics: has 101 names, at most 100":   {Entities: make([]records.StatsEntity, 101)},
		"metrics[0]: name has the control charact": {Metrics: []string{"\n"}},
		"metrics: has 101 names, at most 100 are":  {Metrics: make([]string, 101)},
	} {
		require.ErrorContains(t, n.Check(), want)
	}
}
