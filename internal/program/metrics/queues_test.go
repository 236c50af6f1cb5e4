package metrics_test

import (
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
	"github.com/tidemark-dev/tidemark/internal/program/metrics"
)

// values returns a queue's metrics: values of counters and gauges, and numbers of samples.
func values(t *testing.T, r *prometheus.Registry, queue string) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, ours := f.GetName(), false
			for _, l := range m.GetLabel() {
				if l.GetName() == "queue" {
					ours = l.GetValue() == queue
				} else {
					name += " " + l.GetValue()
				}
			}
			if ours {
				found[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
					float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return found
}

func TestQueues(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m, err := metrics.NewQueues(r)
	require.NoError(t, err)
	_, err = metrics.NewQueues(r)
	require.Error(t, err, "they are registered once")

	q := m.Queue("duel")
	require.Equal(t, map[string]float64{
		"tidemark_matches_total": 0, "tidemark_tickets_expired_total": 0, "tidemark_ticket_wait_seconds": 0,
		"tidemark_relay_lag_seconds": 0, "tidemark_tickets_created_total": 0, "tidemark_tickets_cancelled_total": 0,
		"tidemark_ticket_create_pause_seconds_total": 0, "tidemark_assign_conflicts_total gone": 0,
		"tidemark_assign_conflicts_total claim": 0, "tidemark_match_function_errors_total": 0,
		"tidemark_proposals_refused_total": 0, "tidemark_allocation_errors_total": 0,
		"tidemark_backfills_expired_total": 0,
	}, values(t, r, "duel"), "a queue in use has its counters from the start")
	m.Created("duel")
	m.CreatePaused("duel", 2*time.Second)
	m.Cancelled("duel")
	q.Directing(true)
	q.Tickets(5, 2)
	q.Expired(3)
	q.Backfills(4)
	q.BackfillsExpired(2)
	q.Matched([]time.Duration{time.Second, time.Minute})
	q.Published(time.Second)
	q.Conflict(matchmaking.ConflictNotWaiting)
	q.RoundFailed()
	q.ProposalRefused()
	q.AllocationFailed()
	m.Queue("other").Expired(7)
	want := map[string]float64{
		"tidemark_tickets_created_total": 1, "tidemark_ticket_create_pause_seconds_total": 2,
		"tidemark_tickets_cancelled_total": 1, "tidemark_director": 1,
		"tidemark_tickets SEARCHING": 3, "tidemark_tickets PENDING": 2, "tidemark_tickets_expired_total": 3,
		"tidemark_matches_total": 1, "tidemark_ticket_wait_seconds": 2, "tidemark_relay_lag_seconds": 1,
		"tidemark_assign_conflicts_total gone": 1, "tidemark_assign_conflicts_total claim": 0,
		"tidemark_match_function_errors_total": 1,
		"tidemark_proposals_refused_total":     1, "tidemark_allocation_errors_total": 1,
		"tidemark_backfills": 4, "tidemark_backfills_expired_total": 2,
	}
	require.Equal(t, want, values(t, r, "duel"))

	q.Directing(false)
	delete(want, "tidemark_tickets SEARCHING")
	delete(want, "tidemark_tickets PENDING")
	delete(want, "tidemark_backfills")
	want["tidemark_director"] = 0
	require.Equal(t, want, values(t, r, "duel"), "only the director reports tickets")
	m.Forget("duel")
	require.Empty(t, values(t, r, "duel"))
	require.NotEmpty(t, values(t, r, "other"))
	m.Queue("duel").Expired(1)
	require.Equal(t, 1.0, values(t, r, "duel")["tidemark_tickets_expired_total"], "a queue with an earlier one's name")
}

func TestWaits(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	count := func() (waits, feeds int) { return 5, 2 }
	require.NoError(t, metrics.RegisterWaits(r, count))
	require.Error(t, metrics.RegisterWaits(r, count), "they are registered once")
	families, err := r.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, f := range families {
		found[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	require.Equal(t, map[string]float64{"tidemark_assignment_waits": 5, "tidemark_assignment_feeds": 2}, found)
}

// TestFetches checks the metrics of queues that are directed by their users.
func TestFetches(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	m, err := metrics.NewQueues(r)
	require.NoError(t, err)
	failed := errors.New("failed")
	m.Fetched("duel", time.Second, 7, nil)
	m.Fetched("duel", time.Second, 1, failed)
	m.Cycle("duel", time.Second, backend.CycleCounts{Calls: 2, Proposals: 9, Accepted: 6, HandedOut: 5}, nil)
	m.Function("duel", time.Second, failed)
	m.Evaluator("duel", time.Second, nil)
	m.Released("duel", 3)
	require.Equal(t, map[string]float64{
		"tidemark_fetch_seconds ok": 1, "tidemark_fetch_seconds error": 1,
		"tidemark_fetched_matches_total": 8, "tidemark_fetch_cycle_seconds ok": 1,
		"tidemark_fetch_proposals_total handed-out": 5, "tidemark_fetch_proposals_total dropped": 1,
		"tidemark_fetch_proposals_total rejected": 3, "tidemark_fetch_function_seconds error": 1,
		"tidemark_fetch_evaluator_seconds ok": 1, "tidemark_fetch_tickets_released_total": 3,
	}, values(t, r, "duel"))
	m.Forget("duel")
	require.Empty(t, values(t, r, "duel"))
}
