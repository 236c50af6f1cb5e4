package wire

import "encoding/json"

// Queue is a queue of tickets and its definition, without secrets.
type Queue struct {
	Name       string          `json:"queue"`
	Definition json.RawMessage `json:"definition"` // a JSON object, with its defaults filled in
}

// Queues is the answer to a request for all queues.
type Queues struct {
	Queues []Queue `json:"queues"` // by name
}

// QueueDescription describes a queue.
type QueueDescription struct {
	Queue
	Configured       bool         `json:"configured"` // part of the service's configuration: it can't be put or deleted
	Tickets          TicketCounts `json:"tickets"`
	Outgoing         int          `json:"outgoing"`          // assignments that are not on their channels yet
	Conflicts        int64        `json:"conflicts"`         // matches that failed since the queue was last unused for a day
	OldestWaitMillis int64        `json:"oldestWaitMs"`      // of the tickets that can be matched now; 0 if there are none
	MatchRate        float64      `json:"matchRate"`         // matches a second, over the last minute
	Waits            *Waits       `json:"waitMs,omitempty"`  // of tickets that were matched recently; left out if there are none
	Waiting          *Waiting     `json:"waiting,omitempty"` // if it was asked for
}

// TicketCounts counts a queue's tickets by status.
type TicketCounts struct {
	Searching  int   `json:"SEARCHING"`   // now
	Pending    int   `json:"PENDING"`     // now
	MatchFound int64 `json:"MATCH_FOUND"` // since the queue was last unused for a day; so are the next two
	Cancelled  int64 `json:"CANCELLED"`
	Expired    int64 `json:"EXPIRED"`
}

// Waits are percentiles of how long tickets waited for their match, in milliseconds.
type Waits struct {
	P50 int64 `json:"p50"`
	P90 int64 `json:"p90"`
	P99 int64 `json:"p99"`
}
