package matchmaking

import (
	"context"
	"encoding/json"
	"time"
)

// Director names the director of a queue, which forms its matches, and assigns them.
type Director string

// The directors of a queue.
const (
	DirectorService Director = "service" // the service itself
	DirectorUser    Director = "user"    // a program of the user, by Open Match's Backend API
)

// BackfillSpec is the content of a backfill, as Spec is that of a ticket. Treat referenced values as read-only.
type BackfillSpec struct {
	SearchFields SearchFields
	// Extensions and PersistentField are the caller's own JSON values, by name; a protobuf Any is an object with
	// "@type". The PersistentField is set when the backfill is created, and never changes.
	Extensions      map[string]json.RawMessage
	PersistentField map[string]json.RawMessage
}

// Backfill is the request of a running game for more players, in a queue that is directed by its user; treat it as
// read-only. It exists until it is deleted, or hasn't been acknowledged for the queue's BackfillTTL.
//
// A match can have a backfill. When it is handed out its tickets are associated with the backfill: they are Pending,
// until an acknowledgement of the backfill assigns them, or an update, the deletion or the end of the backfill releases
// them.
type Backfill struct {
	ID    string // from NewBackfillID: it contains the queue's name, and is never reused
	Queue string
	BackfillSpec
	CreateTime time.Time // of the storage's clock, in microseconds
	Expires    time.Time // of the storage's clock, in milliseconds; an acknowledgement extends it
	// Generation is 1 at first, and rises by one with each update, and each match that has the backfill.
	Generation int64
	Tickets    []string // IDs of the associated tickets; some may have ended, or been released
}

// MaxBackfillTickets is the number of tickets that can be associated with a backfill: one acknowledgement assigns them.
const MaxBackfillTickets = 1000

// Backfills stores the backfills of queues. A backfill whose life has ended, but that ExpireBackfills hasn't removed
// yet, is ErrBackfillExpired for UpdateBackfill and AcknowledgeBackfill, and doesn't exist for others.
type Backfills interface {
	// CreateBackfill creates a backfill of generation 1. A repetition returns the same backfill. Errors:
	// ErrTooManyBackfills.
	CreateBackfill(ctx context.Context, r CreateBackfillRequest) (Backfill, error)
	// BackfillSize returns the number of bytes that CreateBackfill stores for a spec.
	BackfillSize(s *BackfillSpec) int
	// Backfill reads a backfill, never from a replica. Errors: ErrNoBackfill.
	Backfill(ctx context.Context, queue, id string) (Backfill, error)
	// UpdateBackfill replaces the content of a backfill, but for its PersistentField, raises its generation by one,
	// and releases its associated tickets. It doesn't extend its life. A repetition with the same Attempt changes
	// nothing more. Errors: ErrNoBackfill, ErrBackfillExpired.
	UpdateBackfill(ctx context.Context, r UpdateBackfillRequest) (Backfill, error)
	// DeleteBackfills removes backfills of a queue, and releases their associated tickets. Removing one that
	// doesn't exist is no error. After an error some may be removed.
	DeleteBackfills(ctx context.Context, queue string, ids []string) error
	// DeleteNewBackfills is DeleteBackfills, for those that no match and no update has changed since they were
	// created.
	DeleteNewBackfills(ctx context.Context, queue string, ids []string) error
	// AcknowledgeBackfill extends the life of a backfill, and assigns its associated tickets, in one step. Tickets
	// that have ended, were released or belong to another match are left out. Afterwards none is associated. A
	// repetition with the same MatchID returns the same tickets. Errors: ErrNoBackfill, ErrBackfillExpired.
	AcknowledgeBackfill(ctx context.Context, r AcknowledgeRequest) (Acknowledged, error)
	// ExpireBackfills removes backfills whose life has ended, up to a limit, and releases their associated tickets.
	// It returns how many it removed.
	ExpireBackfills(ctx context.Context, queue string, limit int) (removed int, err error)
	// EachBackfill calls each with the backfills of a queue, in batches, until each returns an error. One that is
	// created or removed meanwhile may be included or not.
	EachBackfill(ctx context.Context, queue string, each func([]*Backfill) error) error
}

// CreateBackfillRequest contains the backfill to create.
type CreateBackfillRequest struct {
	Queue string
	ID    string // from NewBackfillID
	Spec  BackfillSpec
	TTL   time.Duration // its life without an acknowledgement
	Max   int           // limit of backfills in the queue, this one included
}

// UpdateBackfillRequest contains the new content of a backfill.
type UpdateBackfillRequest struct {
	Queue   string
	ID      string
	Attempt string // new for every call except a repetition: a ULID
	Spec    BackfillSpec
}

// AcknowledgeRequest acknowledges a backfill: its game server is there.
type AcknowledgeRequest struct {
	Definition *Definition // of the backfill's queue
	ID         string
	MatchID    string // new for every call except a repetition: the match of the tickets that are assigned
	Allocation        // of their assignments
}

// Acknowledged is the result of AcknowledgeBackfill.
type Acknowledged struct {
	Backfill Backfill // as it is now, without associated tickets
	Tickets  []Ticket // that were assigned: MatchFound
	// Entries are their entries of the outbox, and Waits their waiting times, in the order of the tickets: see
	// AssignOutcome. Both are empty if an earlier call assigned them.
	Entries []OutboxEntry
	Waits   []time.Duration
}

// Fetches hands matches out to a queue's user.
type Fetches interface {
	// HandOut hands matches out. All tickets of a match are claimed, or none of them: each must be alive,
	// unassigned, and not claimed. A match can create a backfill, or change one whose generation is the given one:
	// then its tickets are associated with it. The matches are processed one after the other, independently: there
	// is an outcome for each, in order, with an error of its own if the storage failed. A match without tickets is
	// valid. A repetition returns the matches that it hands out again, unless their claims have ended.
	HandOut(ctx context.Context, r HandOutRequest) []HandOutOutcome
	// ReleaseFetched releases those of some tickets that were handed out; nil: all tickets of the queue. It leaves
	// tickets that a director of the service has claimed.
	ReleaseFetched(ctx context.Context, queue string, ids []string) error
}

// BackfillToken returns the token that holds the tickets of the matches of a hand-out with a backfill. token is that of
// the HandOutRequest.
func BackfillToken(id, token string) string { return "backfill." + id + "-" + token }

// HandOutRequest contains the matches to hand out.
type HandOutRequest struct {
	Queue string
	// Token is new for every call except a repetition: a ULID. Release with it releases tickets of all matches
	// without a backfill. A ticket that two matches share is only claimed for one of them.
	Token        string
	Hold         time.Duration // until the claims end: the queue's PendingTimeout
	BackfillTTL  time.Duration // the queue's, for backfills that are created
	MaxBackfills int           // limit of backfills in the queue
	Matches      []HandOutMatch
}

// HandOutMatch is one match of a HandOutRequest.
type HandOutMatch struct {
	Tickets  []HandOutTicket // without duplicates
	Backfill *MatchBackfill  // nil: none
}

// HandOutTicket is one ticket of a match.
type HandOutTicket struct {
	ID      string
	Created time.Time // a ticket with this ID and another creation time is another ticket; zero: any
}

// MatchBackfill is the backfill of a match.
type MatchBackfill struct {
	ID         string // of an existing one, or from NewBackfillID
	Create     bool
	Generation int64 // of the existing one
	// Spec is the content; of an existing one the PersistentField stays as it is.
	Spec BackfillSpec
}

// HandOutOutcome is the result of HandOut for one match.
type HandOutOutcome struct {
	// Err is ErrBackfillChanged if the backfill has another generation, has ended, doesn't exist, or would have
	// more than MaxBackfillTickets; ErrTooManyBackfills if it can't be created, and ErrNotHandedOut if there are
	// Conflicts. Nothing was claimed or changed then. For any other error, a storage failure, the outcome is
	// unknown.
	Err error
	// Conflicts are the tickets that could not be claimed.
	Conflicts []Conflict
	// Held is when the claims end, or the life of the backfill if that is earlier: of the storage's clock, in
	// milliseconds. Until then the tickets are in no other match, unless they are released, or the backfill is
	// changed.
	Held time.Time
	// Remaining is the time until Held, when the storage decided.
	Remaining time.Duration
	// Backfill is the match's, as it is stored now; nil: it has none.
	Backfill *Backfill
}
