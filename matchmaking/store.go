package matchmaking

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/lease"
)

// Store stores queues and their tickets. All methods may be called at the same time by many goroutines. They return
// within the context's deadline and the store's own time limit. Outcomes that a client is told are a *fault.Error,
// perhaps wrapped: fault.ErrUnavailable if the storage cannot serve, fault.ErrStorageFull if it has no memory. Every
// call may be repeated; each says what a repetition finds. Each is atomic, also while a slot moves. Times are those of
// the storage's clock.
type Store interface {
	Creations
	Tickets
	Claims
	Leases
	Feed
	AssignedFeed
	Outbox
	Matches
	Admin
}

// Creations creates tickets.
type Creations interface {
	// Create creates a ticket that can be matched. If the queue has a ticket with its ID, in whatever status, Create
	// returns that one, and created is false; one that waits belongs to this attempt from then on. Errors:
	// ErrQueueFull, ErrUndone if the attempt or its epoch was undone, and ErrNotSent if ctx ended before the storage
	// was asked.
	Create(ctx context.Context, r CreateRequest) (t Ticket, created bool, err error)
	// Size returns how many bytes Create stores of a spec.
	Size(s *Spec) int
	// Find is Create for a ticket that exists. Errors: ErrNoTicket; after that no attempt with the request's epoch can
	// create one for UndoneFor.
	Find(ctx context.Context, r CreateRequest) (Ticket, error)
	// Undo removes the ticket that an attempt created, as if it had never existed, unless it belongs to another attempt
	// or doesn't wait anymore. If there is none, the attempt can't create one for UndoneFor, in case it is still on its
	// way. An epoch in place of an attempt stands for all attempts that have it, and removes no ticket. Undo reports
	// whether a ticket with the ID exists.
	Undo(ctx context.Context, queue, id, attempt string) (exists bool, err error)
}

// Tickets is what players do with their tickets.
type Tickets interface {
	// Ticket reads a ticket, from a replica if the store is configured so, and then, if it isn't found, from the
	// primary. One whose life has ended can be read for CreateRequest.Keep longer. Errors: ErrNoTicket.
	Ticket(ctx context.Context, queue, id string) (Ticket, error)
	// Cancel removes a ticket from its queue. One that is cancelled or has expired stays as it is, and that is no
	// error. Errors: ErrTicketMatched if the ticket is assigned, and nothing has changed; ErrNoTicket.
	Cancel(ctx context.Context, r CancelRequest) error
	// Delete is Cancel for a ticket that waits, which can be read as cancelled for its CreateRequest.Keep. One that is
	// assigned is removed: nobody reads it or its assignment any more. A message on its channel stays, or is still
	// published. One that is cancelled, has expired or doesn't exist stays as it is.
	Delete(ctx context.Context, queue, id string) error
	// Renew extends the life of tickets that wait to their TTL from now, up to the end of their Life. It ignores
	// others.
	Renew(ctx context.Context, queue string, ids []string) error
	// Listen has Assign put the assignment of a ticket that waits into the outbox, as it does for all tickets with an
	// epoch, and returns "". It returns an assignment, as JSON, that was made before. Errors: ErrNoTicket if the ticket
	// is over.
	Listen(ctx context.Context, queue, id string) (content string, err error)
}

// UndoneFor is how long an undone attempt to create a ticket stays undone: longer than a command can be on its way to
// Redis.
const UndoneFor = 10 * time.Minute

// CreateRequest is the ticket that Create creates.
type CreateRequest struct {
	// Ticket is the ticket, of which the store sets the times, by its clock, and the status. Its TTL is 200 ms or more;
	// a Life of less than the TTL is the TTL.
	Ticket
	Attempt    string        // identifies this attempt for Undo: a ULID
	Keep       time.Duration // how long it can be read after it has ended, in whatever way
	MaxTickets int           // limit of tickets that wait in the queue, this one included; 0: no limit
	Listening  bool          // as after Listen; has no effect with an Epoch
}

// CancelRequest is the ticket that Cancel removes.
type CancelRequest struct {
	Queue string
	ID    string
	Keep  time.Duration // how long it can be read as cancelled
}

// Claims is what a director does with tickets.
type Claims interface {
	// Claim holds tickets for a token until a deadline: those given, or the oldest up to a limit. It leaves out tickets
	// that another token holds until its deadline; those that this token holds get the new deadline. Errors:
	// lease.ErrLost if r.Fence isn't that of the queue's lease, and nothing was claimed.
	Claim(ctx context.Context, r ClaimRequest) (Claimed, error)
	// Assign assigns all tickets of each match or none of them: each must be alive, unassigned, and held by the token
	// before its deadline. With the fence of the queue's lease a ticket that nobody holds can be assigned too. The
	// matches are decided one after the other, independent of each other: there is an outcome for each, in order, with
	// an error of its own if the storage failed; a repetition then returns what became of it. A match that was assigned
	// before succeeds again.
	Assign(ctx context.Context, r AssignRequest) []AssignOutcome
	// Release gives up those of the tickets that this token holds.
	Release(ctx context.Context, queue, token string, ids []string) error
	// TakeOver ends the claims of directors before the one with this fence on some tickets, so that those directors
	// can't assign them anymore, and returns the tickets. Errors: lease.ErrLost if the fence isn't that of the queue's
	// lease.
	TakeOver(ctx context.Context, queue string, fence uint64, ids []string) ([]string, error)
	// Sweep removes tickets from the queue whose life has ended, if their players were notified, and lists others whose
	// life has ended, up to a limit.
	Sweep(ctx context.Context, queue string, notified []string, limit int) (Swept, error)
}

// Swept is the result of Sweep.
type Swept struct {
	Removed int      // tickets that were removed
	Expired []string // tickets whose life has ended and that are still in the queue
}

// ClaimRequest is what Claim holds.
type ClaimRequest struct {
	Queue string
	Token string        // new for every claim; that of a director is its fence, a dot and a number
	Fence uint64        // of the director's lease, which must be held; 0: the claim needs no lease
	Hold  time.Duration // from now to the deadline
	IDs   []string      // tickets to hold; empty: the oldest
	Limit int           // tickets at most, if IDs is empty
}

// Claimed is the result of Claim.
type Claimed struct {
	Now      time.Time
	Deadline time.Time
	IDs      []string             // held by the token now
	Held     map[string]time.Time // of the IDs asked for: held by another token, until then
	Gone     []string             // of the IDs asked for: assigned, cancelled, expired, or never created
}

// AssignRequest is the matches that Assign assigns.
type AssignRequest struct {
	Queue   string
	Token   string        // new for every call but a repetition
	Fence   uint64        // of the director's lease; 0: the token must hold all tickets
	Keep    time.Duration // how long tickets, assignments and records can be read: the queue's AssignmentTTL
	Matches []AssignMatch
}

// AssignMatch is one match of an AssignRequest.
type AssignMatch struct {
	ID          string
	Assignments []AssignTicket
	Record      []byte // what Match returns, JSON; empty: the match can't be read
}

// AssignTicket is one ticket of a match, with the message for its player.
type AssignTicket struct {
	ID      string
	Created time.Time // a ticket with this ID that was created at another time is another ticket; zero: any is meant
	Epoch   ulid.ULID // the ticket's
	Content []byte    // an Assignment as JSON
}

// AssignOutcome is the result of Assign for one match.
type AssignOutcome struct {
	// Err is ErrNotAssigned or, if AssignRequest.Fence isn't that of the queue's lease, lease.ErrLost, and the match
	// isn't assigned; or the storage failed, and it may be assigned or not: repeat.
	Err error
	// Conflicts are the tickets that could not be assigned. If there is one, nothing was assigned.
	Conflicts []Conflict
	// Entries are the entries of the outbox, in the order of Assignments: "" for a ticket that has none, see
	// Tickets.Listen. It is empty if an earlier call assigned the match.
	Entries []string
	// Waits are how long the tickets had waited, in the order of Assignments. It is empty if Entries is.
	Waits []time.Duration
}

// Conflict is a ticket that could not be assigned.
type Conflict struct {
	ID     string
	Reason ConflictReason
	Until  time.Time // of ConflictClaim, if another token holds the ticket: that claim's deadline
}

// ConflictReason is why a ticket could not be assigned.
type ConflictReason string

// The reasons of conflicts.
const (
	ConflictGone ConflictReason = "gone" // it is assigned to another match, cancelled, expired, or was never created
	// another token holds it; or the token must hold it and doesn't, or not any more
	ConflictClaim ConflictReason = "claim"
)

// Leases decides who directs a queue.
type Leases interface {
	// Leases returns the leases of queues, by their names. Acquire returns ErrQueueIdle if no director holds the lease
	// and the queue has neither tickets nor outgoing assignments.
	Leases() lease.Store
}

// Feed is how a director learns about the tickets of its queue.
type Feed interface {
	// Snapshot reads all tickets that wait, the oldest first, and the point in the changes after which they may have
	// changed.
	Snapshot(ctx context.Context, r WaitingRequest) (Snapshot, error)
	// Waiting calls each with the tickets that wait, the oldest first, at most a hundred at a time, until each returns
	// an error. It holds no more of them in memory. A ticket that comes or goes meanwhile may be among them or not.
	Waiting(ctx context.Context, r WaitingRequest, each func([]*Ticket) error) error
	// Follow begins to read the changes of a queue after a point.
	Follow(r ChangesRequest) Follower
	// Watch calls notify after each change of a queue whose lease nobody holds, or after several at once, until ctx
	// ends. free reports that the lease of the queue may be free. While the connection is down calls are missed; when
	// it is back, as when it is first established, there is one with free. notify must not block. Several goroutines
	// may call it.
	Watch(ctx context.Context, queue string, notify func(free bool))
}

// Follower reads the changes of a queue, each once and in order. One goroutine at a time may use it.
type Follower interface {
	// Next returns the changes after those that it has returned before. If there is none it waits for one, for wait at
	// most, and returns none then. Errors: ErrChangesLost if some changes are gone: take a Snapshot.
	Next(ctx context.Context, wait time.Duration) (Changes, error)
	// Stop ends what Follow has begun.
	Stop()
}

// Snapshot is all tickets that wait in a queue.
type Snapshot struct {
	After   string // the point in the changes
	Now     time.Time
	Tickets []*Ticket            // Searching or Pending
	Held    map[string]time.Time // those that are Pending, and until when
}

// WaitingRequest asks for the tickets that wait in a queue.
type WaitingRequest struct {
	Queue  string
	Fields Fields
}

// Fields is which fields of tickets are read.
type Fields int

// The fields that can be read.
const (
	FieldsNone     Fields = iota // IDs, times and status
	FieldsMatching               // and criteria, statistics and sizes
	FieldsSearch                 // and the search fields
	FieldsAll                    // and the extensions, what was sent, and the owner
)

// ChangesRequest asks for the changes after a point.
type ChangesRequest struct {
	Queue  string
	After  string
	Limit  int    // of changes that are read from the storage at once
	Fields Fields // of tickets that were created, FieldsMatching or more
}

// Changes is what happened in a queue, without what its director did itself.
type Changes struct {
	After   string   // the point after these changes
	Changes []Change // in order
}

// Change is one ticket that was created, was cancelled, or was released by a holder other than the director. One of the
// fields is set.
type Change struct {
	Added     *Ticket
	Cancelled string // a ticket's ID
	Released  string // a ticket's ID
}

// AssignedFeed is how servers learn what becomes of the tickets that their players wait for.
type AssignedFeed interface {
	// ListenAssigned calls l for the tickets of a queue that are assigned or removed, until stop is called. It returns
	// at once. After stop has returned l isn't called anymore.
	ListenAssigned(queue string, l AssignedListener) (stop func())
	// States reads the states of tickets, in order, never from a replica.
	States(ctx context.Context, queue string, ids []string) ([]TicketState, error)
}

// AssignedListener is called for the tickets of one queue. Its functions are called one after the other, by different
// goroutines. They must not block and must not call stop.
type AssignedListener struct {
	Confirmed   func()            // from now on Ended is called for every ticket
	Ended       func(e TicketEnd) // a ticket was assigned or removed; some calls may come before Confirmed, or twice
	Interrupted func()            // calls of Ended may be missing until Confirmed is called again
}

// TicketEnd is a ticket that was assigned or removed.
type TicketEnd struct {
	ID      string // part of a larger string: clone it to keep it
	Created time.Time
	Content string // an Assignment as JSON, and part of a larger string; empty: read it, if the ticket isn't gone
	Gone    bool   // it was cancelled, or its creation was undone
}

// TicketState is the state of a ticket for those who wait for its assignment.
type TicketState struct {
	Created time.Time     // zero: it neither waits nor is assigned
	Left    time.Duration // until its life ends, unless it is renewed, if it waits
	Content string        // an Assignment as JSON, if it is assigned

	// Unconfirmed is set if it is assigned, but no player may be told yet since too few replicas of the storage are
	// known to have that. Content is empty then.
	Unconfirmed bool
}

// Outbox is assignments on their way to the channels of their tickets, if somebody has asked for these.
type Outbox interface {
	// Outgoing returns entries that have been in the outbox for at least age, the oldest first, up to a limit.
	Outgoing(ctx context.Context, queue string, age time.Duration, limit int) ([]OutboxEntry, error)
	// Delivered removes entries. Removing one that doesn't exist is no error.
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

// Matches is the matches that were assigned.
type Matches interface {
	// Match returns the record of a match, AssignMatch.Record, and when it was assigned, to the microsecond. It can be
	// read for AssignRequest.Keep after that, but at least for a minute. Errors: ErrNoMatch.
	Match(ctx context.Context, queue, id string) (record []byte, at time.Time, err error)
}

// Admin is what operators read and change.
type Admin interface {
	// Describe returns the state of a queue, with as many of its last matches as asked for. A queue that never had a
	// ticket is empty.
	Describe(ctx context.Context, queue string, matches int) (QueueState, error)
	// Definitions returns the stored definitions, as they were put, by the queue's name.
	Definitions(ctx context.Context) (map[string][]byte, error)
	// PutDefinition stores a queue's definition, and reports whether there was none. Errors: ErrTooManyQueues if there
	// was none and there are r.Max others.
	PutDefinition(ctx context.Context, r PutRequest) (created bool, err error)
	// DeleteDefinition removes a definition. Removing one that doesn't exist is no error.
	DeleteDefinition(ctx context.Context, queue string) error
}

// PutRequest is the definition that PutDefinition stores.
type PutRequest struct {
	Queue      string
	Definition []byte
	Max        int // limit of definitions, this one included
}

// QueueState is the state of a queue.
type QueueState struct {
	Searching  int           // tickets, now
	Pending    int           // tickets, now
	Outgoing   int           // entries of the outbox, now
	Matched    int64         // tickets, since the queue was last unused for a day; the next three too
	Cancelled  int64         // tickets
	Expired    int64         // tickets
	Conflicts  int64         // matches that could not be assigned
	OldestWait time.Duration // of the tickets that wait; 0: none does
	// Recent is the last matches, up to 1,000, the newest last.
	Recent []RecentMatch
	Now    time.Time
}

// RecentMatch is a match that was assigned recently.
type RecentMatch struct {
	At    time.Time
	Waits []time.Duration // how long its tickets had waited
}
