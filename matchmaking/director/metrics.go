package director

import (
	"time"

	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Metrics counts what a server does for one queue. Its methods may be called by many goroutines.
type Metrics interface {
	TermMetrics
	MatchMetrics
}

// TermMetrics is of the time in which a server directs the queue.
type TermMetrics interface {
	// Directing is called when this server begins and when it ends to direct the queue. It knows no tickets then.
	Directing(yes bool)
	// Tickets is how many tickets wait, and how many of them are in matches that are being made.
	Tickets(waiting, claimed int)
	// Expired counts tickets that were found to have expired.
	Expired(tickets int)
}

// MatchMetrics is of the queue's matches.
type MatchMetrics interface {
	// Matched counts a match. waits is how long its tickets had waited.
	Matched(waits []time.Duration)
	// Conflict counts a match that couldn't be assigned.
	Conflict(reason matchmaking.ConflictReason)
	// RoundFailed counts a round whose match function or evaluator failed.
	RoundFailed()
	// ProposalRefused counts a proposal that can't be a match.
	ProposalRefused()
	// AllocationFailed counts a match for which no place was found.
	AllocationFailed()
}
