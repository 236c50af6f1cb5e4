package wire

import (
	"encoding/json"
	"time"
)

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
	Backfills        int          `json:"backfills,omitempty"` // of a queue that is directed by its user, now
	Outgoing         int          `json:"outgoing"`            // assignments that are not on their channels yet
	Conflicts        int64        `json:"conflicts"`           // matches that failed since the queue was last unused for a day
	OldestWaitMillis int64        `json:"oldestWaitMs"`        // of the tickets that can be matched now; 0 if there are none
	MatchRate        float64      `json:"matchRate"`           // matches a second, over the last minute
	Waits            *Waits       `json:"waitMs,omitempty"`    // of tickets that were matched recently; left out if there are none
	Waiting          *Waiting     `json:"waiting,omitempty"`   // if it was asked for
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

// Waiting lists the tickets that wait longest in a queue, with reasons.
type Waiting struct {
	Tickets    int                 `json:"tickets"`  // that wait
	Examined   int                 `json:"examined"` // of these, the oldest: all that follows is about them
	Waits      LongestWaits        `json:"waitMs"`
	Statistics []WaitingByRange    `json:"statistics"` // those that most criteria name, by name
	Longest    []LongWaitingTicket `json:"longest"`    // those that have waited the longest, the longest first
}

// LongestWaits are percentiles of the waits of waiting tickets, and the longest one, in milliseconds.
type LongestWaits struct {
	Waits
	Max int64 `json:"max"`
}

// WaitingByRange is the tickets that have a statistic, in ranges with about as many of them each.
type WaitingByRange struct {
	Name   string         `json:"name"`
	Ranges []WaitingRange `json:"ranges"` // ascending
}

// WaitingRange is the tickets whose statistic is in a range.
type WaitingRange struct {
	MinValue float64      `json:"minValue"` // of a ticket; so is MaxValue
	MaxValue float64      `json:"maxValue"`
	Tickets  int          `json:"tickets"`
	Waits    LongestWaits `json:"waitMs"`
}

// LongWaitingTicket is a ticket that waits, and how many others it could be matched with.
type LongWaitingTicket struct {
	ID         string      `json:"id"`
	WaitMillis int64       `json:"waitMs"`
	Players    int         `json:"players"`
	Acceptance *Acceptance `json:"acceptance,omitempty"` // left out if the match function isn't built in
}

// Acceptance counts, among the examined tickets, those that ask for the same match as a ticket.
type Acceptance struct {
	Others     int `json:"others"`     // of the same teams, in the same pool
	Accepts    int `json:"accepts"`    // of those, that the ticket accepts, by its criteria as they are widened now
	AcceptedBy int `json:"acceptedBy"` // of those, that accept the ticket
	Candidates int `json:"candidates"` // of those, with which it could be in a match of two
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
	Tickets   int           `json:"tickets"`
	Matches   int           `json:"matches"`
	Matched   int           `json:"matched"`           // tickets
	Unmatched int           `json:"unmatched"`         // tickets that expired
	Waits     *LongestWaits `json:"waitMs,omitempty"`  // of the matched tickets; left out: there is none
	Fitness   *Fitness      `json:"fitness,omitempty"` // of the matches, lower is better; left out: there is none
}

// Fitness is percentiles of the fitness of matches.
type Fitness struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}
