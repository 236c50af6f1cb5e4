package director

import ()

// Metrics counts what a server does for one queue. Its methods may be called by many goroutines.
type Metrics interface {
	TermMetrics
	metrics
	// RoundFailed counts a round whose match function or evaluator failed.
	RoundFailed()
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
