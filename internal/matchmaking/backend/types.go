package backend

import (
	"context"
	"fmt"
	"time"

	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// FetchRequest is a request for matches.
type FetchRequest struct {
	Queue    string
	Profile  []byte // an openmatch.MatchProfile, opaque here
	Function Function
	Trace    string // of the call, as matchmaking.Spec.Trace
}

// Function is the match function of a call.
type Function struct {
	Kind FunctionKind
	Host string // a name or an address, for TLS after https://
	Port int
}

// String returns the function's kind and address.
func (f Function) String() string { return fmt.Sprintf("%s %s:%d", f.Kind, f.Host, f.Port) }

// FunctionKind is the protocol of a match function.
type FunctionKind string

// The kinds of functions.
const (
	FunctionGRPC FunctionKind = "grpc"
	FunctionREST FunctionKind = "rest" // Open Match's HTTP transcoding
)

// Proposal is a match that a function proposes.
type Proposal struct {
	ID      string                      // any string
	Tickets []matchmaking.HandOutTicket // in the match's order; may be empty
	// Score is for the default evaluator, which prefers higher ones, and ranks -Inf, a match without a score, last.
	Score float64
	// Unrankable is set if the match's evaluation_input isn't a score. The default evaluator rejects it.
	Unrankable bool
	Backfill   *matchmaking.MatchBackfill // without an ID: to be created; nil: none
	Content    []byte                     // an openmatch.Match, opaque here
}

// Match is a match whose tickets are handed out.
type Match struct {
	Content []byte // the function's, unchanged
	// Created is the backfill that was created with the match; nil: none was.
	Created *matchmaking.Backfill
}

// Functions calls match functions. Its methods may be called by many goroutines.
type Functions interface {
	// Check returns an error unless a function may be called. Errors: fault.SlugInvalidRequest.
	Check(f Function) error
	// Run calls a function once, and passes its proposals to propose, one after the other, as they arrive. It returns
	// the error of propose, the cause of ctx if that ends, or a *Failure.
	Run(ctx context.Context, r FetchRequest, propose func(Proposal) error) error
}

// Evaluator decides between proposals.
type Evaluator interface {
	// Evaluate receives proposals until the channel is closed, and passes the IDs of the accepted ones to accept, in any
	// order and at any time. It returns the error of accept, the cause of ctx if that ends, or a *Failure. accept
	// doesn't wait for the network.
	Evaluate(ctx context.Context, proposals <-chan Proposal, accept func(id string) error) error
	// Close closes the evaluator's connections, after its last call.
	Close()
}

// Store hands out tickets and releases them: a part of matchmaking.Store.
type Store interface {
	// HandOut is that of matchmaking.Fetches.
	HandOut(ctx context.Context, r matchmaking.HandOutRequest) []matchmaking.HandOutOutcome
	// BackfillSize is that of matchmaking.Backfills.
	BackfillSize(s *matchmaking.BackfillSpec) int
	// Release is that of matchmaking.Claims.
	Release(ctx context.Context, queue, token string, ids []string) error
	// DeleteNewBackfills is that of matchmaking.Backfills.
	DeleteNewBackfills(ctx context.Context, queue string, ids []string) error
}

// Metrics counts what a server does. Its methods may be called by many goroutines.
type Metrics interface {
	// Fetched counts a call of this server, and its matches.
	Fetched(queue string, took time.Duration, matches int, err error)
	// Cycle counts a cycle that this server ran.
	Cycle(queue string, took time.Duration, c CycleCounts, err error)
	// Function counts a call of a match function, and Evaluator one of an evaluator.
	Function(queue string, took time.Duration, err error)
	Evaluator(queue string, took time.Duration, err error)
	// Released counts tickets that were handed out for matches that no caller got.
	Released(queue string, tickets int)
}

// CycleCounts are the counts of one cycle.
type CycleCounts struct {
	Calls     int
	Proposals int
	Accepted  int // by the evaluator
	HandedOut int // the others were dropped: see HandOutOutcome.Err
}

// uncounted implements Metrics without counting.
type uncounted struct{}

func (uncounted) Fetched(string, time.Duration, int, error)       {}
func (uncounted) Cycle(string, time.Duration, CycleCounts, error) {}
func (uncounted) Function(string, time.Duration, error)           {}
func (uncounted) Evaluator(string, time.Duration, error)          {}
func (uncounted) Released(string, int)                            {}
