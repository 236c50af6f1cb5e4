package wire

import (
	"time"

	"github.com/tidemark-dev/tidemark/client"
)

// Queues is the answer to a request for all queues.
type Queues struct {
	Queues []client.Queue `json:"queues"` // by name
}

// CheckedQueue is the answer to the check of a queue's definition.
type CheckedQueue struct {
	Valid  bool              `json:"valid"`
	Faults []DefinitionFault `json:"faults"` // at most 100
}

// DefinitionFault is something wrong with a definition, and where it is in the text.
type DefinitionFault struct {
	Field  string `json:"field"` // a JSON pointer; empty: the whole definition, or its syntax
	Detail string `json:"detail"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1, in characters
}

// RecentMatches are the last matches of a queue.
type RecentMatches struct {
	Matches []RecentMatch `json:"matches"` // the newest first
}

// RecentMatch is a match that was assigned recently.
type RecentMatch struct {
	ID         string    `json:"id"`
	AssignTime time.Time `json:"assignTime"` // to the millisecond
	WaitMillis []int64   `json:"waitMs"`     // how long each ticket had waited
}

// Simulation is the answer to the simulation of a queue's definition.
type Simulation struct {
	Recorded  int       `json:"recorded"`            // tickets that the server has created in the last hour
	Waiting   int       `json:"waiting"`             // tickets that wait now, some of which are recorded, too
	Truncated bool      `json:"truncated,omitempty"` // there are more tickets than were simulated
	Today     Simulated `json:"today"`               // by the queue's definition
	Changed   Simulated `json:"changed"`             // by the definition of the request
}

// Simulated is how tickets are matched by a definition.
type Simulated struct {
	Tickets   int                  `json:"tickets"`
	Matches   int                  `json:"matches"`
	Matched   int                  `json:"matched"`           // tickets
	Unmatched int                  `json:"unmatched"`         // tickets that expired
	Waits     *client.LongestWaits `json:"waitMs,omitempty"`  // of the matched tickets; left out: there is none
	Fitness   *Fitness             `json:"fitness,omitempty"` // of the matches, lower is better; left out: there is none
}

// Fitness is percentiles of the fitness of matches.
type Fitness struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}
