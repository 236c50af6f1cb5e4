package matchmaking

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Proposal is a match proposed by a match function. It doesn't reserve its tickets: claiming them decides.
type Proposal struct {
	ID    string      // of the match, valid for [CheckMatchID]; empty: the director generates one with [NewID]
	Teams [][]*Ticket // tickets by team, without duplicates
	// for evaluators: of two proposals that share a ticket, the one with the higher score is kept
	Score      float64
	Extensions map[string]json.RawMessage
}

// Tickets returns the proposal's tickets, team by team.
func (p Proposal) Tickets() []*Ticket { return slices.Concat(p.Teams...) }

// Matcher proposes matches of the tickets added to it. It keeps state between rounds, so that the cost of a round
// depends on the changes, not on the number of waiting tickets. Its methods are called by one goroutine at a time.
type Matcher interface {
	// Add makes a ticket available: a new ticket, or a proposed ticket that could not be claimed or assigned.
	Add(t *Ticket)
	// Remove removes a ticket if it is available: it was cancelled, has expired, or is being assigned.
	Remove(id string)
	// Match proposes matches of available tickets, and removes their tickets: the director adds the unassigned ones
	// again. now is the time of the storage's clock. On an error nothing was removed.
	Match(ctx context.Context, now time.Time) ([]Proposal, error)
	// Next returns the time when Match may find more without further tickets, for example when criteria widen; zero:
	// never.
	Next() time.Time
}

// MatchFunction is a match function without state, for programs that embed the service. It receives all tickets of each
// pool in every round, and so is simpler and slower than a Matcher.
type MatchFunction interface {
	// Match proposes matches. pools holds the waiting tickets that pass each pool's filters, the oldest first.
	Match(ctx context.Context, p Profile, pools map[string][]*Ticket) ([]Proposal, error)
}

// Evaluator selects among proposals that share tickets.
type Evaluator interface {
	// Evaluate returns the proposals to assign, no two of which share a ticket.
	Evaluate(ctx context.Context, proposals []Proposal) ([]Proposal, error)
}

// Assigner allocates game servers for matches. All methods may be called by many goroutines.
type Assigner interface {
	// Allocate allocates a server for a match. It returns when ctx ends; the deadline of ctx is close to that of the
	// claim.
	Allocate(ctx context.Context, p Proposal) (Allocation, error)
	// Release releases the server of a match that was not assigned. If Allocate failed, a is its result, perhaps empty:
	// the match's ID then identifies the server to release.
	Release(ctx context.Context, matchID string, a Allocation) error
}

// Immediate is an Assigner whose Allocate may never block. Such matches are assigned together, without a goroutine
// each.
type Immediate interface {
	Assigner
	// Immediate reports whether Allocate never blocks. The answer never changes.
	Immediate() bool
}

// Allocation is the result of an Assigner.
type Allocation struct {
	Connection string
	Extensions map[string]json.RawMessage
	Token      string // for the assigner's own use in Release
}

// AcceptanceCounts counts the other tickets with which a waiting ticket could be matched.
type AcceptanceCounts struct {
	Others     int `json:"others"`     // that ask for the same match: in the same pool, of the same teams
	Accepts    int `json:"accepts"`    // of those, that the ticket accepts, by its criteria as they are widened now
	AcceptedBy int `json:"acceptedBy"` // of those, that accept the ticket
	Candidates int `json:"candidates"` // of those, with which it can be in a match of two
}
