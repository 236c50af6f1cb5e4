package matchmaking

import (
	"errors"
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/lease"
)

// Errors for comparison with errors.Is, which compares the slug.
var (
	ErrNoTicket = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoTicket, Detail: "the ticket doesn't exist"}
	ErrNoQueue  = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoQueue, Detail: "the queue doesn't exist"}
	// ErrNoMatch is returned for a match that doesn't exist, or whose record has expired.
	ErrNoMatch = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoMatch, Detail: "the match doesn't exist"}
	// ErrTicketExists is returned when the ID of a new ticket belongs to a ticket in another queue, or of another
	// owner. It doesn't distinguish the two cases.
	ErrTicketExists = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTicketExists,
		Detail: "a ticket of another queue or owner has this ID"}
	ErrTicketMatched = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTicketMatched,
		Detail: "the ticket is in a match already"}
	ErrQueueFull = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugQueueFull,
		Detail: "the limit of tickets that wait in the queue is reached"}
	// ErrTooManyQueues is returned when a new queue would exceed the limit of queues.
	ErrTooManyQueues = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTooManyQueues,
		Detail: "the limit of queues is reached: delete one, or raise max-queues"}
	ErrQueueFixed = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugQueueFixed,
		Detail: "the queue is part of the service's configuration"}
	// ErrNoBackfill is returned for a backfill that doesn't exist, was deleted, or has expired.
	ErrNoBackfill = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoBackfill,
		Detail: "the backfill doesn't exist"}
	// ErrBackfillExpired is returned for a backfill that wasn't acknowledged in time, and isn't removed yet.
	ErrBackfillExpired = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugBackfillExpired,
		Detail: "the backfill has expired: it wasn't acknowledged in time"}
	ErrTooManyBackfills = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugManyBackfills,
		Detail: "the limit of backfills of the queue is reached"}
	// ErrQueueDirector is returned for a call that is for queues that are directed by their users.
	ErrQueueDirector = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugQueueDirector,
		Detail: "the queue is directed by the service: define it with director: user"}
)

// Errors of a store that clients never receive.
var (
	// ErrQueueIdle is returned by Acquire for the lease of an idle queue.
	ErrQueueIdle   = fmt.Errorf("%w: the queue is empty and has no director", lease.ErrRefused)
	ErrChangesLost = errors.New("changes of the queue were removed before they were read")
	// ErrNotAssigned is the error of an assignment that the storage refused permanently. Nothing was assigned.
	ErrNotAssigned = errors.New("the storage refused the assignment")
	ErrUndone      = errors.New("the creation was undone before it arrived")
	// ErrNotSent is the error of a creation that ended before a command was sent to the storage.
	ErrNotSent = errors.New("the creation was not sent")
	// ErrNotHandedOut is the error of a match that was not handed out since some of its tickets could not be claimed.
	ErrNotHandedOut = errors.New("not all tickets of the match wait")
	// ErrBackfillChanged is the error of a match that was not handed out since its backfill has another generation, has
	// expired, doesn't exist, or would have too many tickets.
	ErrBackfillChanged = errors.New("the match's backfill was changed or removed, or is full")
	// ErrLaterTicket is the error of publishing an assignment for a ticket whose ID belongs to a later ticket now.
	ErrLaterTicket = errors.New("a later life of the ticket's channel has begun")
)

// InvalidTicket returns an error with fault.SlugInvalidTicket. field is the invalid part of the ticket.
func InvalidTicket(field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidTicket, Field: field,
		Detail: fmt.Sprintf(format, args...)}
}

// InvalidBackfill returns an error with fault.SlugInvalidBackfill. field is the invalid part of the backfill.
func InvalidBackfill(field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidBackfill, Field: field,
		Detail: fmt.Sprintf(format, args...)}
}

// CheckBackfillSize returns an error with fault.SlugBackfillTooLarge if a backfill of this size exceeds the limit.
func (l Limits) CheckBackfillSize(bytes int) error {
	if bytes <= l.MaxTicketBytes {
		return nil
	}
	return &fault.Error{Kind: fault.TooLarge, Slug: fault.SlugBackfillTooLarge, Detail: fmt.Sprintf(
		"the backfill has %d bytes as protobuf, the limit of this queue is %d", bytes, l.MaxTicketBytes)}
}

// InvalidQueue returns an error with fault.SlugInvalidQueue. field is the path of the invalid value in the definition.
func InvalidQueue(field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidQueue, Field: field,
		Detail: fmt.Sprintf(format, args...)}
}

// InvalidKey returns an error with fault.SlugInvalidQueue for the value of a key of a definition. It wraps err, which
// describes the problem with the value.
func InvalidKey(key string, err error) error {
	return invalidKey{
		clientErr: &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidQueue, Field: key,
			Detail: key + ": " + err.Error()}, err: err,
	}
}

// invalidKey is the error for the client, and its cause.
type invalidKey struct {
	clientErr *fault.Error
	err       error
}

// Error returns the text for the client.
func (e invalidKey) Error() string { return e.clientErr.Detail }

// Unwrap returns both errors.
func (e invalidKey) Unwrap() []error { return []error{e.clientErr, e.err} }
