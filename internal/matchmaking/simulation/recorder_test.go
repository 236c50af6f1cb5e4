package simulation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/simulation"
)

// TestRecorder: it keeps the last tickets of an hour, a bounded number and size, without what matches don't depend on.
func TestRecorder(t *testing.T) {
	t.Parallel()
	var r simulation.Recorder
	now := time.Now()
	add := func(queue, id string, at time.Time, spec matchmaking.Spec) {
		r.Add(&matchmaking.Ticket{ID: id, Queue: queue, CreateTime: at, Owner: "ann", Spec: spec})
	}
	add("a", "1", now, matchmaking.Spec{Statistics: []matchmaking.Statistic{{Name: "s", Value: 1}}})
	add("b", "2", now, matchmaking.Spec{})
	got := r.Tickets("a", now)
	require.Len(t, got, 1)
	require.Equal(t, "1", got[0].ID)
	require.Len(t, got[0].Statistics, 1)
	require.Empty(t, got[0].Owner)
	require.Empty(t, r.Tickets("a", now.Add(simulation.RecordedFor+1)))
	later := now.Add(simulation.RecordedFor + 1)
	add("b", "3", later, matchmaking.Spec{})
	require.Len(t, r.Tickets("b", later), 1)
	require.Empty(t, r.Tickets("a", now), "it isn't kept")
	for i := range simulation.MaxRecorded + 5 {
		add("c", fmt.Sprint(i), later, matchmaking.Spec{})
	}
	require.Len(t, r.Tickets("c", later), simulation.MaxRecorded)
	require.Equal(t, "5", r.Tickets("c", later)[0].ID)
	for i := range 20 {
		add("d", fmt.Sprint(i), later, matchmaking.Spec{SearchFields: matchmaking.SearchFields{
			Tags: []string{strings.Repeat("x", 1<<20)}}})
	}
	require.Len(t, r.Tickets("d", later), 7, "8 MiB")
	require.Empty(t, r.Tickets("c", later))
}
