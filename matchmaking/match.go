package matchmaking

import (
	"context"
	"encoding/json"
	"time"
)

// Proposal is a match that a match function suggests. It holds none of its tickets: claiming them decides.
type Proposal struct {
	ID    string      // of the match, valid for [CheckMatchID]; empty: the director makes one, by [NewID]
	Teams [][]*Ticket // tickets by team, each ticket once
	// for evaluators: of two proposals that share a ticket, the one with the higher score is kept
	Score      float64
	Extensions map[string]json.RawMessage
}

// Tickets returns the proposal's tickets, team by team.
func (p Proposal) Tickets() []*Ticket {
	var all []*Ticket
	for _, team := range p.Teams {
		all = append(all, team...)
	}
	return all
}

// Matcher proposes matches of the tickets that it was given. It keeps state between rounds, so that the cost of a round
// depends on what has changed, not on what waits. Its methods are called by one goroutine at a time.
type Matcher interface {
	// Add makes a ticket available: a new one, or one that was proposed and could not be claimed or assigned.
	Add(t *Ticket)
	// Remove removes a ticket, if it is available: it was cancelled, has expired, or is being assigned.
	Remove(id string)
	// Match proposes matches of available tickets, and removes their tickets: the director adds those again that are
	// not assigned. now is the time of the storage's clock. On an error nothing was removed.
	Match(ctx context.Context, now time.Time) ([]Proposal, error)
	// Next returns when Match may find more although nothing was added, for example as criteria widen; zero: never.
	Next() time.Time
}

// MatchFunction is a match function without state, for services that embed this one. It gets all tickets of each pool
// in every round, and so is simpler and slower than a Matcher.
type MatchFunction interface {
	// Match proposes matches. pools holds the waiting tickets that pass each pool's filters, the oldest first.
	Match(ctx context.Context, p Profile, pools map[string][]*Ticket) ([]Proposal, error)
}

// Evaluator chooses among proposals that share tickets.
type Evaluator interface {
	// Evaluate returns those of the proposals that are to be assigned, no two of which share a ticket.
	Evaluate(ctx context.Context, proposals []Proposal) ([]Proposal, error)
}

// Assigner allocates game servers for matches. All methods may be called by many goroutines.
type Assigner interface {
	// Allocate allocates a server for a match. It returns when ctx ends, whose deadline is close to that of the claim.
	Allocate(ctx context.Context, p Proposal) (Allocation, error)
	// Release gives back the server of a match that was not assigned. If Allocate failed, a is what it returned,
	// perhaps nothing: the match's ID then says what is to be released.
	Release(ctx context.Context, matchID string, a Allocation) error
}

// Immediate is an Assigner whose Allocate may never wait for anything. Such matches are assigned together, and without
// a goroutine each.
type Immediate interface {
	Assigner
	// Immediate reports whether Allocate never waits. The answer never changes.
	Immediate() bool
}

// Allocation is what an Assigner allocated.
type Allocation struct {
	Connection string
	Extensions map[string]json.RawMessage
	Token      string // for the assigner's own use in Release
}
