package matchmaking

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"
)

// Store keeps queues and their tickets. Every method may be called at the same time by many goroutines, answers
// within the context's deadline and the store's own time limit, and returns a *fault.Error (perhaps wrapped) for
// outcomes that a client is told: fault.ErrUnavailable where the storage can't serve, fault.ErrStorageFull
// where it has no memory. Every call may be repeated; each says what a repeat finds. Each is one step: it happens
// wholly or not at all, also while a slot moves. Times are the storage's.
type Store interface {
	Creations
	Tickets
	Claims
	Leases
	Feed
	Outbox
	Admin
}

// Creations is how tickets are made.
type Creations interface {
	// Create makes a ticket that can be matched. Where one with its ID is there, in whatever status, that one is
	// returned and created is false; one that waits is this attempt's from then on. Errors: ErrQueueFull, and
	// ErrUndone, where the attempt or its epoch was undone.
	Create(ctx context.Context, r CreateRequest) (t Ticket, created bool, err error)
	// Find is Create where there is a ticket. Errors: ErrNoTicket; then no attempt with the request's epoch can make one
	// for UndoneFor.
	Find(ctx context.Context, r CreateRequest) (Ticket, error)
	// Undo takes a ticket out that an attempt to create it made, as if it had never been, unless another attempt has
	// found it there, or it doesn't wait any more. Where there is none the attempt can make none for UndoneFor, should
	// it still be on its way. In place of an attempt it may be given an epoch, which stands for all attempts that have
	// it and takes no ticket out. It reports whether a ticket with the ID is there.
	Undo(ctx context.Context, queue, id, attempt string) (there bool, err error)
}

// Tickets is what players do with theirs.
type Tickets interface {
	// Ticket reads a ticket, from a replica where the store has been told to, and then, if it isn't there, from the
	// primary. One whose life has ended is there for CreateRequest.Keep longer. Errors: ErrNoTicket.
	Ticket(ctx context.Context, queue, id string) (Ticket, error)
	// Cancel takes a ticket out of its queue, unless it is assigned: then ErrTicketMatched, and nothing changes. One
	// that is cancelled, has expired or isn't there is left as it is, and that is no error.
	Cancel(ctx context.Context, r CancelRequest) error
	// Renew makes tickets that are waiting live for their TTL from now, up to the end of their Life. Those that aren't waiting are left out.
	Renew(ctx context.Context, queue string, ids []string) error
}

// UndoneFor is how long an attempt to make a ticket stays undone: longer than what was sent to Redis can be on its way.
const UndoneFor = 10 * time.Minute

// CreateRequest is the ticket that Create makes.
type CreateRequest struct {
	Queue      string
	ID         string
	Attempt    string    // names this attempt: a ULID, for Undo
	Epoch      ulid.ULID // of the life of its channel that the ticket begins; zero: the ID is never used again
	Spec       Spec
	TTL        time.Duration // how long it can be matched, 200 ms or more, unless it is renewed
	Life       time.Duration // how long it can be matched at most, however often it is renewed; less than TTL: TTL
	Keep       time.Duration // how long it can be read after it has ended, whatever its end
	MaxTickets int           // waiting in the queue at most, this one included; 0: no limit
}

// CancelRequest is the ticket that Cancel takes out.
type CancelRequest struct {
	Queue string
	ID    string
	Keep  time.Duration // how long it can be read as cancelled
}

// Claims is what a director does with tickets.
type Claims interface {
	// Claim holds tickets for a token until a deadline: those given, or the oldest up to a limit. Tickets that
	// another token holds are left out until that one's deadline; those that this token holds get the new deadline.
	// Errors: ErrLeaseLost, where a lease is given and isn't held: then nothing was claimed.
	Claim(ctx context.Context, r ClaimRequest) (Claimed, error)
	// Assign assigns all tickets of each match or none of them: every one must be alive, unassigned, and held by the
	// token before its deadline. The matches are independent of each other: there is an outcome for each, in order,
	// with an error of its own where the storage failed it, after which a repeat tells what became of it. A match
	// that was assigned before is OK again.
	Assign(ctx context.Context, r AssignRequest) []AssignOutcome
	// Release gives up those of the tickets that this token holds.
	Release(ctx context.Context, queue, token string, ids []string) error
	// TakeOver ends the claims that directors before the one with this lease have on some tickets, so that these can't
	// assign them any more, and returns the tickets. Errors: ErrLeaseLost, where the lease isn't held.
	TakeOver(ctx context.Context, queue, lease string, ids []string) ([]string, error)
	// Sweep takes tickets out of the queue that were told of, where their life has ended, and lists others, up to a limit.
	Sweep(ctx context.Context, queue string, told []string, limit int) (Swept, error)
}

// Swept is what Sweep did and found.
type Swept struct {
	Taken   int      // tickets that were taken out
	Expired []string // tickets whose life has ended and that are in the queue
}

// ClaimRequest says what Claim holds.
type ClaimRequest struct {
	Queue string
	Token string        // new for every claim: where a lease is given, that lease, a dot and a number
	Lease string        // the director's, which must be held; empty: whoever claims needs none
	Hold  time.Duration // from now to the deadline
	IDs   []string      // tickets to hold; empty: the oldest
	Limit int           // tickets at most, where IDs is empty
}

// Claimed is what became of a claim.
type Claimed struct {
	Now      time.Time
	Deadline time.Time
	IDs      []string             // held by the token now
	Held     map[string]time.Time // of the IDs asked for: held by another token, until then
	Gone     []string             // of the IDs asked for: assigned, cancelled, expired, or never there
}

// AssignRequest is the matches that Assign makes.
type AssignRequest struct {
	Queue   string
	Token   string
	Keep    time.Duration // how long tickets and assignments can be read, the queue's AssignmentTTL
	Matches []AssignMatch
}

// AssignMatch is one match.
type AssignMatch struct {
	ID          string
	Assignments []AssignTicket
}

// AssignTicket is one ticket of a match, with the message that its player gets.
type AssignTicket struct {
	ID      string
	Created time.Time // another ticket with this ID that was made at another time is gone; zero: any is meant
	Epoch   ulid.ULID // the ticket's
	Content []byte    // JSON of an Assignment
}

// AssignOutcome is what became of one match.
type AssignOutcome struct {
	// Err is that the storage failed, and the match may be assigned or not: ask again; or ErrNotAssigned: it isn't.
	Err error
	// Conflicts are the tickets that couldn't be assigned. Where there is one nothing was assigned.
	Conflicts []Conflict
	// Entries stand in the outbox, in the order of Assignments. Empty where the match was assigned by an earlier try.
	Entries []string
	// Waits are how long the tickets had waited, in the order of Assignments; empty as Entries is.
	Waits []time.Duration
}

// Conflict is a ticket that couldn't be assigned, and why.
type Conflict struct {
	ID     string
	Reason ConflictReason
}

// ConflictReason is why a ticket couldn't be assigned.
type ConflictReason string

// The reasons of conflicts.
const (
	ConflictGone  ConflictReason = "gone"  // it is assigned to another match, cancelled, expired, or never was
	ConflictClaim ConflictReason = "claim" // the token doesn't hold it, or its deadline is over
)

// Leases decide who directs a queue.
type Leases interface {
	// Campaign takes the direction of a queue in which there is something to do, for r.TTL from now. Errors: ErrLeaseLost,
	// where another holds it; ErrQueueIdle, where nobody does and the queue has neither tickets nor outgoing assignments.
	Campaign(ctx context.Context, r LeaseRequest) (now time.Time, err error)
	// Lease takes or renews the direction of a queue, for r.TTL from now. Errors: ErrLeaseLost, where another holds it.
	Lease(ctx context.Context, r LeaseRequest) (now time.Time, err error)
	// Resign ends a lease, if it is still held, and tells those who watch the queue.
	Resign(ctx context.Context, queue, lease string) error
}

// Feed is how a director learns what there is.
type Feed interface {
	// Snapshot reads all waiting tickets, the oldest first, and the point in the changes from which on they may have
	// changed.
	Snapshot(ctx context.Context, queue string) (Snapshot, error)
	// Waiting calls each with the tickets that wait, the oldest first, a hundred at most at a time, until each returns an
	// error. It holds no more of them in memory. A ticket that comes or goes meanwhile is among them or not.
	Waiting(ctx context.Context, r WaitingRequest, each func([]*Ticket) error) error
	// Changes reads the changes after a point, in order. None: nothing happened. Errors: ErrChangesLost, where some
	// between the point and now are gone: take a Snapshot.
	Changes(ctx context.Context, r ChangesRequest) (Changes, error)
	// Watch calls told after each change of a queue, or after several at once, until ctx ends. free reports that the
	// direction of the queue may be free. Calls that were missed while the connection was down are made up for by one
	// with free when it is back, as when it is there for the first time. told must not block; it may be called by
	// several goroutines.
	Watch(ctx context.Context, queue string, told func(free bool))
}

// LeaseRequest asks for the direction of a queue.
type LeaseRequest struct {
	Queue string
	Lease string // names who asks, new for every term
	TTL   time.Duration
}

// Snapshot is all tickets that wait in a queue.
type Snapshot struct {
	After   string // the point
	Now     time.Time
	Tickets []*Ticket            // Searching or Pending
	Held    map[string]time.Time // those that are Pending, and until when
}

// WaitingRequest asks for the tickets that wait in a queue.
type WaitingRequest struct {
	Queue  string
	Fields Fields
}

// Fields is how much of tickets is to be read.
type Fields int

// What can be read of tickets.
const (
	FieldsNone   Fields = iota // their IDs, times and status
	FieldsSearch               // the search fields, too
	FieldsAll
)

// ChangesRequest asks for what happened after a point.
type ChangesRequest struct {
	Queue string
	After string
	Limit int
}

// Changes is what happened in a queue. What a director does itself isn't among it.
type Changes struct {
	After   string   // the point after these
	Changes []Change // in order
}

// Change is one ticket that came, was cancelled, or was given up by whoever held it, if that wasn't the director.
type Change struct {
	Added     *Ticket // nil: see the others
	Cancelled string  // a ticket's ID, or ""
	Released  string  // a ticket's ID, or ""
}

// Outbox is assignments on their way to their channels.
type Outbox interface {
	// Outgoing gives entries that have stood in the outbox for at least an age, the oldest first, up to a limit.
	Outgoing(ctx context.Context, queue string, age time.Duration, limit int) ([]OutboxEntry, error)
	// Delivered removes entries. Removing one that isn't there is no error.
	Delivered(ctx context.Context, queue string, entries []string) error
}

// OutboxEntry is an assignment that its channel may not have yet.
type OutboxEntry struct {
	Entry    string
	TicketID string
	MatchID  string
	Epoch    ulid.ULID // the ticket's
	Content  []byte
	Age      time.Duration
}

// Admin is what operators see and change.
type Admin interface {
	// Describe tells of a queue, with so many of its last matches; one that never had a ticket is empty.
	Describe(ctx context.Context, queue string, matches int) (QueueState, error)
	// Definitions gives the definitions that were put, as they were put, by the queue's name.
	Definitions(ctx context.Context) (map[string][]byte, error)
	// PutDefinition keeps a queue's definition, and reports whether there was none. Errors: ErrTooManyQueues, where there
	// was none and there are r.Most others.
	PutDefinition(ctx context.Context, r PutRequest) (created bool, err error)
	// DeleteDefinition removes one. Removing one that isn't there is no error.
	DeleteDefinition(ctx context.Context, queue string) error
}

// PutRequest is the definition that PutDefinition keeps.
type PutRequest struct {
	Queue      string
	Definition []byte
	Most       int // definitions at most, this one included
}

// QueueState is how a queue stands.
type QueueState struct {
	Searching  int           // tickets, now
	Pending    int           // tickets, now
	Outgoing   int           // entries of the outbox, now
	Matched    int64         // tickets, since the queue was last unused for a day; so are the next three
	Cancelled  int64         // tickets
	Expired    int64         // tickets
	Conflicts  int64         // matches that couldn't be assigned
	OldestWait time.Duration // of the tickets that wait; 0: none does
	// Recent is how long tickets had waited that were matched recently, the newest match last: of up to 1,000 matches.
	Recent []RecentMatch
	Now    time.Time
}

// RecentMatch is a match that was made a while ago.
type RecentMatch struct {
	At    time.Time
	Waits []time.Duration // of its tickets
}
