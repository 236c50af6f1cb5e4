package matchmaking

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/lease"
)

// Store stores queues and their tickets. All methods may be called at the same time by many goroutines. They return
// within the context's deadline and the store's own time limit. Errors meant for clients are a *fault.Error, perhaps
// wrapped: fault.ErrUnavailable if the storage cannot serve, fault.ErrStorageFull if it has no memory. Every call may
// be repeated; each method documents the result of a repetition. Each is atomic, also while a slot moves. Times are
// those of the storage's clock.
type Store interface {
	Creations
	Tickets
	Claims
	Fetches
	Backfills
	Leases
	Feed
	AssignedFeed
	Outbox
	Matches
	Admin
}

// Creations creates tickets.
type Creations interface {
	// Create creates a ticket that can be matched. If the queue has a ticket with its ID, in any status, Create
	// returns that ticket with created false; if that ticket waits, it belongs to this attempt from then on.
	// Errors: ErrQueueFull, ErrUndone if the attempt or its epoch was undone, and ErrNotSent if ctx ended before a
	// command was sent to the storage.
	Create(ctx context.Context, r CreateRequest) (t Ticket, created bool, err error)
	// Size returns the number of bytes that Create stores for a spec.
	Size(s *Spec) int
	// Find is Create for an existing ticket. Errors: ErrNoTicket; after that no attempt with the request's epoch
	// can create one for UndoneFor.
	Find(ctx context.Context, r CreateRequest) (Ticket, error)
	// Undo removes the ticket that an attempt created, as if it had never existed, unless it belongs to another
	// attempt or no longer waits. If it does not exist, the attempt can't create it for UndoneFor, in case its
	// command arrives late. Undo reports whether a ticket with the ID exists.
	Undo(ctx context.Context, queue, id, attempt string) (exists bool, err error)
	// Vacate reports whether a ticket with an ID exists. If none does, no attempt with the epoch can create one for
	// UndoneFor.
	Vacate(ctx context.Context, queue, id string, epoch ulid.ULID) (exists bool, err error)
}

// Tickets reads and changes single tickets.
type Tickets interface {
	// Ticket reads a ticket, from a replica if the store is configured so, and then from the primary if the replica
	// doesn't have it. A ticket whose life has ended remains readable for CreateRequest.Keep. Errors: ErrNoTicket.
	Ticket(ctx context.Context, queue, id string) (Ticket, error)
	// Cancel removes a ticket from its queue. For a cancelled or expired ticket it changes nothing but Deindexed, and
	// returns no error. Errors: ErrTicketMatched if the ticket is assigned and stays, and nothing has changed;
	// ErrNoTicket.
	Cancel(ctx context.Context, r CancelRequest) error
	// Renew extends the life of waiting tickets to their TTL from now, up to the end of their Life. It ignores
	// others.
	Renew(ctx context.Context, queue string, ids []string) error
}

// UndoneFor is how long an undone attempt to create a ticket stays undone: longer than the maximum delay of a command
// to Redis.
const UndoneFor = 10 * time.Minute

// CreateRequest contains the ticket to create.
type CreateRequest struct {
	// Ticket is the ticket; the store sets its times, by the storage's clock, and its status. Its TTL is 200 ms or
	// more; a Life of less than the TTL is raised to the TTL.
	Ticket
	Attempt    string        // identifies this attempt for Undo: a ULID
	Keep       time.Duration // how long it can be read after its end
	MaxTickets int           // limit of waiting tickets in the queue, this one included; 0: no limit
}

// CancelRequest identifies the ticket to cancel.
type CancelRequest struct {
	Queue string
	ID    string
	Keep  time.Duration // how long it can be read as cancelled; 0: its CreateRequest.Keep; unused with Deindex
	// Deindex makes a waiting ticket readable as Deindexed until its life ends, at most for its CreateRequest.Keep, and
	// after that as cancelled for as long again. A later Cancel without it ends that.
	Deindex bool
	// RemoveAssigned removes an assigned ticket: neither it nor its assignment can be read any more. A message on its
	// channel remains, or is still published.
	RemoveAssigned bool
}

// Claims are the operations of a director on tickets.
type Claims interface {
	// Claim holds tickets for a token until a deadline: the given tickets, or the oldest up to a limit. It skips
	// tickets that another token holds until its deadline; tickets already held by this token get the new deadline.
	// Errors: lease.ErrLost if r.Fence isn't that of the queue's lease, and nothing was claimed.
	Claim(ctx context.Context, r ClaimRequest) (Claimed, error)
	// Assign assigns all tickets of each match or none of them: each must be alive, unassigned, and held by the
	// token before its deadline. With the fence of the queue's lease, an unclaimed ticket can be assigned too, and
	// with Any each ticket that no director of the service has claimed. The matches are processed one after the
	// other, independently: there is an outcome for each, in order, with an error of its own if the storage failed;
	// a repetition then returns the actual outcome. A match that was assigned before succeeds again.
	Assign(ctx context.Context, r AssignRequest) []AssignOutcome
	// Release releases those of the tickets that this token holds.
	Release(ctx context.Context, queue, token string, ids []string) error
	// TakeOver ends the claims of earlier directors, those with a lower fence, on some tickets, so that those
	// directors can't assign them anymore, and returns the tickets. Errors: lease.ErrLost if the fence isn't that
	// of the queue's lease.
	TakeOver(ctx context.Context, queue string, fence uint64, ids []string) ([]string, error)
	// Sweep removes tickets whose life has ended from the queue, if their players were notified, and lists others
	// whose life has ended, up to a limit.
	Sweep(ctx context.Context, queue string, notified []string, limit int) (Swept, error)
}

// Swept is the result of Sweep.
type Swept struct {
	Removed int      // removed tickets
	Expired []string // tickets whose life has ended and that are still in the queue
}

// ClaimRequest is the request of Claim.
type ClaimRequest struct {
	Queue string
	Token string        // new for every claim; a director's token is its fence, a dot and a number
	Fence uint64        // of the director's lease, which must be valid; 0: the claim needs no lease
	Hold  time.Duration // from now to the deadline
	IDs   []string      // tickets to hold; empty: the oldest
	Limit int           // maximum number of tickets, if IDs is empty
}

// Claimed is the result of Claim.
type Claimed struct {
	Now        time.Time
	Deadline   time.Time
	IDs        []string             // now held by the token
	Held       map[string]time.Time // of the requested IDs: held by another token, and its deadline
	NotWaiting []string             // of the requested IDs: assigned, cancelled, expired, or never created
}

// AssignRequest contains the matches to assign.
type AssignRequest struct {
	Queue   string
	Token   string        // new for every call except a repetition
	Fence   uint64        // of the director's lease; 0: the token must hold all tickets
	Any     bool          // tickets that were handed out, or that nobody has claimed, are assigned too
	Keep    time.Duration // how long tickets, assignments and records can be read: the queue's AssignmentTTL
	Matches []AssignMatch
}

// AssignMatch is one match of an AssignRequest.
type AssignMatch struct {
	ID          string
	Assignments []AssignTicket
	Record      []byte // result of Match, JSON; empty: the match can't be read
}

// AssignTicket is one ticket of a match, with the message for its player.
type AssignTicket struct {
	ID      string
	Created time.Time // a ticket with this ID and another creation time is another ticket; zero: any
	Epoch   ulid.ULID // the ticket's
	Content []byte    // an Assignment as JSON
}

// AssignOutcome is the result of Assign for one match.
type AssignOutcome struct {
	// Err is ErrNotAssigned, or lease.ErrLost if AssignRequest.Fence isn't that of the queue's lease; the match
	// isn't assigned then. For any other error, a storage failure, the outcome is unknown: repeat the call.
	Err error
	// Conflicts are the tickets that could not be assigned. If it isn't empty, nothing was assigned.
	Conflicts []Conflict
	// Entries are the entries of the outbox, in the order of Assignments: "" for a ticket without a channel. It is
	// empty if an earlier call assigned the match.
	Entries []string
	// Waits are the waiting times of the tickets, in the order of Assignments. It is empty if Entries is.
	Waits []time.Duration
}

// Conflict is a ticket that could not be assigned.
type Conflict struct {
	ID     string
	Reason ConflictReason
	Until  time.Time // of ConflictClaim, if another token holds the ticket: the deadline of that claim
}

// ConflictReason is the reason for a conflict.
type ConflictReason string

// The reasons of conflicts.
const (
	ConflictNotWaiting ConflictReason = "gone" // it is assigned to another match, cancelled, expired, or never existed
	// another token holds it; or the token must hold it and doesn't
	ConflictClaim ConflictReason = "claim"
)

// Leases decides which server directs a queue.
type Leases interface {
	// Leases returns the leases of queues, by queue name. Acquire returns ErrQueueIdle if no director holds the
	// lease and the queue has neither tickets nor backfills nor outgoing assignments.
	Leases() lease.Store
}

// Feed notifies a director of changes to its queue's tickets.
type Feed interface {
	// Snapshot reads all waiting tickets, the oldest first, and the position in the changes from which they may
	// have changed.
	Snapshot(ctx context.Context, r WaitingRequest) (Snapshot, error)
	// Waiting calls each with the waiting tickets, the oldest first, in batches of at most a hundred, until each
	// returns an error. It holds only one batch in memory. A ticket that is added or removed meanwhile may be
	// included or not.
	Waiting(ctx context.Context, r WaitingRequest, each func([]*Ticket) error) error
	// Follow begins to read the changes of a queue after a position.
	Follow(r ChangesRequest) Follower
	// DropChanges removes all changes of a queue that nobody follows.
	DropChanges(ctx context.Context, queue string) error
	// Watch calls notify after one or several changes of a queue without a lease holder, until ctx ends. free
	// reports that the lease of the queue may be free. While the connection is down calls are missed; each time it
	// is established, notify is called with free set. notify must not block. Several goroutines may call it.
	Watch(ctx context.Context, queue string, notify func(free bool))
}

// Follower reads the changes of a queue, each once and in order. It is not safe for concurrent use.
type Follower interface {
	// Next returns the changes after those that it has returned before. If there are none it waits for one for at
	// most wait, and then returns none. Errors: ErrChangesLost if some changes are no longer stored: take a
	// Snapshot.
	Next(ctx context.Context, wait time.Duration) (Changes, error)
	// Stop ends the follower and its subscription.
	Stop()
}

// Snapshot contains all waiting tickets of a queue.
type Snapshot struct {
	After   string // the position in the changes
	Now     time.Time
	Tickets []*Ticket            // Searching or Pending
	Held    map[string]time.Time // the Pending tickets, and their deadlines
}

// WaitingRequest is a request for the waiting tickets of a queue.
type WaitingRequest struct {
	Queue  string
	Fields Fields
	Free   bool // without those that are held for a match
}

// Fields selects the ticket fields to read.
type Fields int

// The values of Fields.
const (
	FieldsNone     Fields = iota // IDs, times and status
	FieldsMatching               // and criteria, statistics and sizes
	FieldsSearch                 // and the search fields
	FieldsAll                    // and the extensions, the sent message, and the owner
)

// ChangesRequest is a request for the changes after a position.
type ChangesRequest struct {
	Queue  string
	After  string
	Limit  int    // maximum number of changes read from the storage at once
	Fields Fields // of created tickets, FieldsMatching or more
}

// Changes are the changes of a queue, except those made by its director.
type Changes struct {
	After   string   // the position after these changes
	Changes []Change // in order
}

// Change is one ticket that was created, was cancelled, or was released by a holder other than the director. One of the
// fields is set.
type Change struct {
	Added     *Ticket
	Cancelled string // a ticket's ID
	Released  string // a ticket's ID
}

// AssignedFeed notifies servers of the ends of tickets that their players wait for.
type AssignedFeed interface {
	// ListenAssigned calls l for the assigned or removed tickets of a queue, until stop is called. It returns at
	// once. After stop has returned l isn't called anymore.
	ListenAssigned(queue string, l AssignedListener) (stop func())
	// States reads the states of tickets, in order, never from a replica.
	States(ctx context.Context, queue string, ids []string) ([]TicketState, error)
}

// AssignedListener receives notifications about the tickets of one queue. Its functions are called one after the other,
// by different goroutines. They must not block and must not call stop.
type AssignedListener struct {
	Confirmed   func()            // from now on Ended is called for every ticket
	Ended       func(e TicketEnd) // a ticket was assigned or removed; some calls may occur before Confirmed, or twice
	Interrupted func()            // calls of Ended may be missing until Confirmed is called again
}

// TicketEnd is a ticket that was assigned or removed.
type TicketEnd struct {
	ID      string // part of a larger string: clone it to keep it
	Created time.Time
	Content string // an Assignment as JSON, and part of a larger string; empty: read it, unless Removed
	Removed bool   // it was cancelled, or its creation was undone
}

// TicketState is the state of a ticket as needed to wait for its assignment.
type TicketState struct {
	Created   time.Time     // zero: it neither waits nor is assigned
	Remaining time.Duration // until its life ends, unless it is renewed, if it waits
	Content   string        // an Assignment as JSON, if it is assigned

	// Unconfirmed is set if the ticket is assigned, but too few replicas have confirmed the assignment to send it
	// to a player. Content is empty then.
	Unconfirmed bool
}

// Outbox holds assignments that are to be published on the channels of their tickets.
type Outbox interface {
	// Outgoing returns entries that have been in the outbox for at least age, the oldest first, up to a limit.
	Outgoing(ctx context.Context, queue string, age time.Duration, limit int) ([]OutboxEntry, error)
	// Delivered removes entries. Removing one that doesn't exist is no error.
	Delivered(ctx context.Context, queue string, entries []string) error
}

// OutboxEntry is an assignment that may not be published on its channel yet.
type OutboxEntry struct {
	Entry    string
	TicketID string
	MatchID  string
	Epoch    ulid.ULID // the ticket's
	Content  []byte
	Age      time.Duration
	Trace    string // of the match, as Spec.Trace; empty: it wasn't traced, or the entry is one that was read
}

// Matches reads assigned matches.
type Matches interface {
	// Match returns the record of a match, AssignMatch.Record, and its assignment time, to the microsecond. It can
	// be read for AssignRequest.Keep after that, but at least for a minute. Errors: ErrNoMatch.
	Match(ctx context.Context, queue, id string) (record []byte, at time.Time, err error)
}

// Admin are the operations for operators.
type Admin interface {
	// Describe returns the state of a queue, with the given number of its last matches. A queue that never had a
	// ticket is empty.
	Describe(ctx context.Context, queue string, matches int) (QueueState, error)
	// Definitions returns the stored definitions, unchanged, by queue name.
	Definitions(ctx context.Context) (map[string][]byte, error)
	// PutDefinition stores a queue's definition, and reports whether it is new. Errors: ErrTooManyQueues if it is
	// new and there are r.Max others.
	PutDefinition(ctx context.Context, r PutRequest) (created bool, err error)
	// DeleteDefinition removes a definition. Removing one that doesn't exist is no error.
	DeleteDefinition(ctx context.Context, queue string) error
}

// PutRequest contains the definition to store.
type PutRequest struct {
	Queue      string
	Definition []byte
	Max        int // limit of definitions, this one included
}

// QueueState is the state of a queue.
type QueueState struct {
	Searching  int           // tickets, now
	Pending    int           // tickets, now
	Backfills  int           // now
	Outgoing   int           // entries of the outbox, now
	Matched    int64         // tickets, since the queue was last unused for a day; as the next three
	Cancelled  int64         // tickets
	Expired    int64         // tickets
	Conflicts  int64         // matches that could not be assigned
	OldestWait time.Duration // oldest waiting ticket; 0: no ticket waits
	// Recent are the last matches, up to 1,000, the newest last.
	Recent []RecentMatch
	Now    time.Time
}

// RecentMatch is a match that was assigned recently.
type RecentMatch struct {
	ID    string
	At    time.Time
	Waits []time.Duration // waiting times of its tickets
}

// Lookup maps caller-chosen ticket IDs to queues; other IDs contain the queue, see QueueOf. An ID belongs to one queue
// for one life of the ticket's channel. The lookup is stored with the channels, since an ID and the life of its channel
// change in one step. All methods may be called by many goroutines.
type Lookup interface {
	// Reserve assigns an ID to a queue: it begins a life of the ticket's channel, with the subscriber Subscriber at
	// the channel's clock. If the ID belongs to a queue in a life other than the one that the reservation replaces,
	// nothing changes. Reserve returns the current owner of the ID.
	Reserve(ctx context.Context, r Reservation) (Owner, error)
	// Owner returns the owner of an ID. Errors: ErrNoTicket.
	Owner(ctx context.Context, ticketID string) (Owner, error)
}

// Owner is the queue that owns a ticket ID.
type Owner struct {
	Queue string
	Epoch ulid.ULID // of the life of the ticket's channel
}

// Reservation is the new owner of an ID.
type Reservation struct {
	TicketID string
	Owner                  // its Epoch is later than Replaces
	Replaces ulid.ULID     // epoch of the owner to replace; zero: the ID belongs to no queue
	TTL      time.Duration // life of the ticket's channel without activity
}

// Publisher publishes assignments on the channels of tickets.
type Publisher interface {
	// Publish publishes assignments on their tickets' channels, together, each in the channel life with the entry's
	// epoch; zero: in any. It may be repeated. It returns an error for each: ErrLaterTicket if a later life
	// has begun. It doesn't retain entries.
	Publish(ctx context.Context, entries []OutboxEntry) []error
}

// Subscriptions ends the waiting fetches of players.
type Subscriptions interface {
	// Unsubscribe removes the subscriber of a ticket's channel, which ends its waiting fetches. It succeeds if the
	// subscriber does not exist.
	//
	// If the channel is in a life later than the ticket's epoch, nothing is removed; an epoch of zero means that
	// the ticket's ID is never reused.
	Unsubscribe(ctx context.Context, ticketID string, epoch ulid.ULID) error
}
