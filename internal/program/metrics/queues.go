package metrics

import (
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/internal/histogram"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/service"
)

// Queues is a service.Metrics. Counters count the operations of this server. Only the server that directs a queue has
// gauges of its tickets, so that sums over all servers are correct.
type Queues struct {
	vectors
	fetch fetchVectors

	mu     sync.Mutex
	queues map[string]*queueMetrics
}

// vectors are the metrics of all queues.
type vectors struct {
	tickets          *prometheus.GaugeVec
	wait             *prometheus.HistogramVec
	matches          *prometheus.CounterVec
	conflicts        *prometheus.CounterVec
	relayLag         *prometheus.HistogramVec
	matchErrors      *prometheus.CounterVec
	allocationErrors *prometheus.CounterVec
	refusedProposals *prometheus.CounterVec
	director         *prometheus.GaugeVec
	created          *prometheus.CounterVec
	createPauses     *prometheus.CounterVec
	cancelled        *prometheus.CounterVec
	expired          *prometheus.CounterVec
	backfills        *prometheus.GaugeVec
	backfillsExpired *prometheus.CounterVec
}

// queueMetrics is one queue's part of the metrics. What is counted for each ticket is looked up once.
type queueMetrics struct {
	metrics  *Queues
	name     string
	wait     prometheus.Observer
	relayLag prometheus.Observer
	matches  prometheus.Counter
	expired  prometheus.Counter
}

const labelQueue = "queue"

// NewQueues returns metrics that are registered.
func NewQueues(r prometheus.Registerer) (*Queues, error) {
	m := &Queues{queues: map[string]*queueMetrics{}, fetch: newFetchVectors()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help},
			append([]string{labelQueue}, labels...))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help},
			append([]string{labelQueue}, labels...))
	}
	m.tickets = gauge("tidemark_tickets", "Tickets that wait. Only the server that directs the queue reports them.",
		"status")
	m.wait = prometheus.NewHistogramVec(histogram.Options("tidemark_ticket_wait_seconds",
		"Time from a ticket's creation to its assignment.",
		[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}), []string{labelQueue})
	m.matches = counter("tidemark_matches_total", "Matches assigned.")
	m.conflicts = counter("tidemark_assign_conflicts_total",
		"Matches that could not be assigned, by reason: gone (a ticket was cancelled, assigned or had expired), claim (the allocation took too long).", "reason")
	m.relayLag = prometheus.NewHistogramVec(histogram.Options("tidemark_relay_lag_seconds",
		"Time from an assignment to its publication on the ticket's channel.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}), []string{labelQueue})
	m.matchErrors = counter("tidemark_match_function_errors_total",
		"Rounds of a match function or evaluator that failed or timed out.")
	m.allocationErrors = counter("tidemark_allocation_errors_total", "Matches for which no server was allocated.")
	m.refusedProposals = counter("tidemark_proposals_refused_total",
		"Proposals of a match function or evaluator that cannot be matches, such as those with too many tickets.")
	m.director = gauge("tidemark_director", "1 if this server directs the queue.")
	m.created = counter("tidemark_tickets_created_total", "Tickets created on this server.")
	m.createPauses = counter("tidemark_ticket_create_pause_seconds_total",
		"Time for which this server created no tickets, because many assignments were on their way to their players.")
	m.cancelled = counter("tidemark_tickets_cancelled_total",
		"Tickets whose cancellation succeeded on this server, repetitions included.")
	m.expired = counter("tidemark_tickets_expired_total", "Tickets that this server found to have expired.")
	m.backfills = gauge("tidemark_backfills",
		"Backfills of a queue that is directed by its user. Only the server that holds the queue's lease reports them.")
	m.backfillsExpired = counter("tidemark_backfills_expired_total",
		"Backfills that this server removed because they were not acknowledged in time.")
	for _, v := range append(m.all(), m.fetch.all()...) {
		if err := r.Register(v); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// RegisterWaits registers gauges of the waits for assignments that a server serves, which count returns.
func RegisterWaits(r prometheus.Registerer, count func() (waits, feeds int)) error {
	gauge := func(name, help string, value func(waits, feeds int) int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return float64(value(count())) })
	}
	waits := gauge("tidemark_assignment_waits", "Calls that wait for an assignment, such as WatchAssignments.",
		func(waits, _ int) int { return waits })
	feeds := gauge("tidemark_assignment_feeds", "Queues whose notifications of assignments are listened to.",
		func(_, feeds int) int { return feeds })
	return errors.Join(r.Register(waits), r.Register(feeds))
}

// vector is a metric of all queues.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(labels prometheus.Labels) int
}

// all returns all metrics.
func (m *vectors) all() []vector {
	return []vector{
		m.tickets, m.wait, m.matches, m.conflicts, m.relayLag, m.matchErrors, m.allocationErrors, m.refusedProposals,
		m.director,
		m.created, m.createPauses, m.cancelled, m.expired, m.backfills, m.backfillsExpired,
	}
}

// Queue returns the metrics of a queue.
func (m *Queues) Queue(name string) service.QueueMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := m.queues[name]
	if q == nil {
		q = &queueMetrics{
			metrics: m, name: name,
			wait: m.wait.WithLabelValues(name), relayLag: m.relayLag.WithLabelValues(name),
			matches: m.matches.WithLabelValues(name), expired: m.expired.WithLabelValues(name),
		}
		m.queues[name] = q
		for _, rare := range []*prometheus.CounterVec{m.matchErrors, m.allocationErrors, m.refusedProposals,
			m.createPauses, m.created, m.cancelled, m.backfillsExpired} {
			rare.WithLabelValues(name) // 0, so that alerts see the first one
		}
		for _, reason := range []matchmaking.ConflictReason{matchmaking.ConflictNotWaiting, matchmaking.ConflictClaim} {
			m.conflicts.WithLabelValues(name, string(reason))
		}
	}
	return q
}

// Forget removes the metrics of a deleted queue.
func (m *Queues) Forget(queue string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.queues, queue)
	for _, v := range append(m.all(), m.fetch.all()...) {
		v.DeletePartialMatch(prometheus.Labels{labelQueue: queue})
	}
}

// Created counts a ticket that was created on this server.
func (m *Queues) Created(queue string) { m.created.WithLabelValues(queue).Inc() }

// CreatePaused counts the time for which this server creates no tickets in a queue.
func (m *Queues) CreatePaused(queue string, by time.Duration) {
	m.createPauses.WithLabelValues(queue).Add(by.Seconds())
}

// Cancelled counts a cancellation that succeeded on this server.
func (m *Queues) Cancelled(queue string) { m.cancelled.WithLabelValues(queue).Inc() }

// Directing implements service.QueueMetrics.
func (q *queueMetrics) Directing(yes bool) {
	value := 0.0
	if yes {
		value = 1
	}
	q.metrics.director.WithLabelValues(q.name).Set(value)
	if !yes {
		q.metrics.tickets.DeletePartialMatch(prometheus.Labels{labelQueue: q.name})
		q.metrics.backfills.DeletePartialMatch(prometheus.Labels{labelQueue: q.name})
	}
}

// Tickets implements service.QueueMetrics.
func (q *queueMetrics) Tickets(waiting, claimed int) {
	q.metrics.tickets.WithLabelValues(q.name, string(matchmaking.Searching)).Set(float64(waiting - claimed))
	q.metrics.tickets.WithLabelValues(q.name, string(matchmaking.Pending)).Set(float64(claimed))
}

// Expired implements service.QueueMetrics.
func (q *queueMetrics) Expired(tickets int) { q.expired.Add(float64(tickets)) }

// Backfills implements service.QueueMetrics.
func (q *queueMetrics) Backfills(count int) {
	q.metrics.backfills.WithLabelValues(q.name).Set(float64(count))
}

// BackfillsExpired implements service.QueueMetrics.
func (q *queueMetrics) BackfillsExpired(backfills int) {
	q.metrics.backfillsExpired.WithLabelValues(q.name).Add(float64(backfills))
}

// Matched implements service.QueueMetrics.
func (q *queueMetrics) Matched(waits []time.Duration) {
	q.matches.Inc()
	for _, w := range waits {
		q.wait.Observe(w.Seconds())
	}
}

// Conflict implements service.QueueMetrics.
func (q *queueMetrics) Conflict(reason matchmaking.ConflictReason) {
	q.metrics.conflicts.WithLabelValues(q.name, string(reason)).Inc()
}

// RoundFailed implements service.QueueMetrics.
func (q *queueMetrics) RoundFailed() { q.metrics.matchErrors.WithLabelValues(q.name).Inc() }

// AllocationFailed implements service.QueueMetrics.
func (q *queueMetrics) AllocationFailed() { q.metrics.allocationErrors.WithLabelValues(q.name).Inc() }

// ProposalRefused implements service.QueueMetrics.
func (q *queueMetrics) ProposalRefused() { q.metrics.refusedProposals.WithLabelValues(q.name).Inc() }

// Published implements service.QueueMetrics.
func (q *queueMetrics) Published(age time.Duration) { q.relayLag.Observe(age.Seconds()) }
