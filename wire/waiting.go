package wire

// Waiting is who waits long in a queue, and why.
type Waiting struct {
	Tickets    int                 `json:"tickets"`  // that wait
	Examined   int                 `json:"examined"` // of these, the oldest: all that follows is about them
	Waits      LongestWaits        `json:"waitMs"`
	Statistics []WaitingByRange    `json:"statistics"` // those that most criteria name, by name
	Longest    []LongWaitingTicket `json:"longest"`    // those that have waited the longest, the longest first
}

// LongestWaits are percentiles of how long tickets have waited, and the longest wait, in milliseconds.
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
