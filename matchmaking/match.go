package matchmaking

import (
	"context"
	"encoding/json"
	"time"
)

// Proposal is a match that a match function would like to make. Its tickets are still anybody's.
type Proposal struct {
	ID         string      // of the match, a ULID where the function gives none; matches [CheckMatchID]
	Teams      [][]*Ticket // the tickets by team; each ticket once
	Score      float64     // how good it is, for an evaluator: of two that share a ticket the higher one is kept
	Extensions map[string]json.RawMessage
}

// Tickets gives the proposal's tickets, team by team.
func (p Proposal) Tickets() []*Ticket {
	var all []*Ticket
	for _, team := range p.Teams {
		all = append(all, team...)
	}
	return all
}

// Matcher forms matches and keeps what it needs to know for that from one round to the next, so that a round costs
// what has changed and not what waits. A director owns it: its methods are called by one goroutine at a time.
type Matcher interface {
	// Add makes a ticket available. It is a new one, or one that was proposed and couldn't be had.
	Add(t *Ticket)
	// Remove takes a ticket out, if it is there: it was cancelled, has expired, or is being assigned.
	Remove(id string)
	// Match proposes matches of available tickets. What it proposes it takes out by itself: the director adds it
	// again where that came to nothing. now is the storage's time. On an error nothing was proposed or taken out.
	Match(ctx context.Context, now time.Time) ([]Proposal, error)
	// Next is when Match may find more although nothing was added, as when criteria widen; zero: never.
	Next() time.Time
}

// MatchFunction is a match function of your own, for services that embed this one. It gets the whole pools, and so
// is simpler and slower than a Matcher.
type MatchFunction interface {
	// Match proposes matches out of the waiting tickets that pass each pool's filters, the oldest first.
	Match(ctx context.Context, p Profile, pools map[string][]*Ticket) ([]Proposal, error)
}

// Evaluator chooses among proposals that share tickets.
type Evaluator interface {
	// Evaluate gives those of the proposals that are to be made, no two of which share a ticket.
	Evaluate(ctx context.Context, proposals []Proposal) ([]Proposal, error)
}

// Assigner finds a match a place to play at.
type Assigner interface {
	// Allocate finds a place for a match. It is called again with the same match ID where the outcome of the first
	// call isn't known, and must then give the same place. It ends with ctx, whose deadline is the claim's.
	Allocate(ctx context.Context, p Proposal) (Allocation, error)
	// Release gives a place back that no player was told of, since the match fell through. Allocate may have failed
	// halfway: it is then called with what is known, perhaps only the match's ID.
	Release(ctx context.Context, matchID string, a Allocation) error
}

// Immediate is an Assigner that may say that its Allocate never waits for anything. Such matches are assigned
// together, and without a goroutine each.
type Immediate interface {
	Assigner
	// Immediate tells whether it is so. The answer never changes.
	Immediate() bool
}

// Allocation is a place to play at.
type Allocation struct {
	Connection string
	Extensions map[string]json.RawMessage
	Token      string // the assigner's own, for its Release
}
