package service

import (
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/director"
	"github.com/tidemark-dev/tidemark/matchmaking/outbox"
)

// Metrics counts what a server does. Its methods may be called by many goroutines.
type Metrics interface {
	// Queue returns the metrics of one queue. It is called when the queue is not idle anymore.
	Queue(name string) QueueMetrics
	// Forget is called when a queue is gone.
	Forget(queue string)
	// Created counts a ticket that was created on this server.
	Created(queue string)
	// Cancelled counts a cancellation that succeeded on this server, repeats included.
	Cancelled(queue string)
}

// QueueMetrics counts what a server does for one queue.
type QueueMetrics interface {
	director.Metrics
	outbox.Metrics
}

// uncounted is Metrics that count nothing.
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
