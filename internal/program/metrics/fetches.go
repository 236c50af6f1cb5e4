package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/histogram"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/backend"
)

// Queues is a backend.Metrics, too.
var _ backend.Metrics = (*Queues)(nil)

// fetchVectors are the metrics of queues that are directed by their users.
type fetchVectors struct {
	fetches    *prometheus.HistogramVec
	fetched    *prometheus.CounterVec
	cycles     *prometheus.HistogramVec
	proposals  *prometheus.CounterVec
	functions  *prometheus.HistogramVec
	evaluators *prometheus.HistogramVec
	released   *prometheus.CounterVec
}

const (
	labelOutcome = "outcome"

	outcomeOK    = "ok"
	outcomeError = "error"
)

// The outcomes of proposals.
const (
	proposalHandedOut = "handed-out"
	proposalDropped   = "dropped"
	proposalRejected  = "rejected"
)

func newFetchVectors() fetchVectors {
	buckets := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	durations := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(histogram.Options(name, help, buckets), []string{labelQueue, labelOutcome})
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append([]string{labelQueue}, labels...))
	}
	return fetchVectors{
		fetches: durations("tidemark_fetch_seconds", "Duration of calls of FetchMatches on this server."),
		fetched: counter("tidemark_fetched_matches_total", "Matches that calls of FetchMatches on this server received."),
		cycles:  durations("tidemark_fetch_cycle_seconds", "Duration of cycles of FetchMatches that this server ran."),
		proposals: counter("tidemark_fetch_proposals_total", "Proposals of match functions in the cycles that this server "+
			"ran: handed-out, rejected by the evaluator, or dropped (a ticket was not free, or the backfill had changed).",
			labelOutcome),
		functions: durations("tidemark_fetch_function_seconds",
			"Duration of calls of match functions for FetchMatches."),
		evaluators: durations("tidemark_fetch_evaluator_seconds", "Duration of evaluations for FetchMatches."),
		released: counter("tidemark_fetch_tickets_released_total",
			"Tickets that were released because no caller of FetchMatches received their match."),
	}
}

func (m *fetchVectors) all() []vector {
	return []vector{
		m.fetches, m.fetched, m.cycles, m.proposals, m.functions, m.evaluators, m.released,
	}
}

func outcomeOf(err error) string {
	if err != nil {
		return outcomeError
	}
	return outcomeOK
}

// Fetched implements backend.Metrics.
func (m *Queues) Fetched(queue string, took time.Duration, matches int, err error) {
	m.fetch.fetches.WithLabelValues(queue, outcomeOf(err)).Observe(took.Seconds())
	m.fetch.fetched.WithLabelValues(queue).Add(float64(matches))
}

// Cycle implements backend.Metrics.
func (m *Queues) Cycle(queue string, took time.Duration, c backend.CycleCounts, err error) {
	m.fetch.cycles.WithLabelValues(queue, outcomeOf(err)).Observe(took.Seconds())
	m.fetch.proposals.WithLabelValues(queue, proposalHandedOut).Add(float64(c.HandedOut))
	m.fetch.proposals.WithLabelValues(queue, proposalDropped).Add(float64(max(c.Accepted-c.HandedOut, 0)))
	m.fetch.proposals.WithLabelValues(queue, proposalRejected).Add(float64(max(c.Proposals-c.Accepted, 0)))
}

// Function implements backend.Metrics.
func (m *Queues) Function(queue string, took time.Duration, err error) {
	m.fetch.functions.WithLabelValues(queue, outcomeOf(err)).Observe(took.Seconds())
}

// Evaluator implements backend.Metrics.
func (m *Queues) Evaluator(queue string, took time.Duration, err error) {
	m.fetch.evaluators.WithLabelValues(queue, outcomeOf(err)).Observe(took.Seconds())
}

// Released implements backend.Metrics.
func (m *Queues) Released(queue string, tickets int) {
	m.fetch.released.WithLabelValues(queue).Add(float64(tickets))
}
