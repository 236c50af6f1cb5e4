package service

import (
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/director"
	"github.com/tidemark-dev/tidemark/matchmaking/outbox"
)

// Metrics counts the operations of a server. Its methods may be called by many goroutines.
type Metrics interface {
	// Queue returns the metrics of one queue. It is called when the queue becomes active.
	Queue(name string) QueueMetrics
	// Forget is called when a queue was deleted.
	Forget(queue string)
	// Created counts a ticket creation on this server.
	Created(queue string)
	// Cancelled counts a successful cancellation on this server, including repetitions.
	Cancelled(queue string)
}

// QueueMetrics counts the operations of a server on one queue.
type QueueMetrics interface {
	director.Metrics
	outbox.Metrics
}

// uncounted implements Metrics without counting.
type uncounted struct{}

func (uncounted) Queue(string) QueueMetrics           { return uncounted{} }
func (uncounted) Forget(string)                       {}
func (uncounted) Created(string)                      {}
func (uncounted) Cancelled(string)                    {}
func (uncounted) Directing(bool)                      {}
func (uncounted) Tickets(int, int)                    {}
func (uncounted) Expired(int)                         {}
func (uncounted) Matched([]time.Duration)             {}
func (uncounted) Conflict(matchmaking.ConflictReason) {}
func (uncounted) RoundFailed()                        {}
func (uncounted) ProposalRefused()                    {}
func (uncounted) AllocationFailed()                   {}
func (uncounted) Published(time.Duration)             {}
