package matchmaking

import (
	"errors"
	"fmt"

	"github.com/tidemark-dev/tidemark/fault"
)

// Errors that callers compare with errors.Is, which compares the slug.
var (
	ErrNoTicket = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoTicket, Detail: "the ticket doesn't exist"}
	ErrNoQueue  = &fault.Error{Kind: fault.NotFound, Slug: fault.SlugNoQueue, Detail: "the queue doesn't exist"}
	// ErrTicketExists is the error of creating a ticket under an ID that a ticket of another queue has.
	ErrTicketExists  = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTicketExists, Detail: "a ticket of another queue has this ID"}
	ErrTicketMatched = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTicketMatched, Detail: "the ticket is in a match already"}
	ErrQueueFull     = &fault.Error{Kind: fault.Unavailable, Slug: fault.SlugQueueFull, Detail: "the queue has as many tickets waiting as it may"}
	// ErrTooManyQueues is the error of making a queue where there are as many as there may be.
	ErrTooManyQueues = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugTooManyQueues, Detail: "there are as many queues as the service allows: delete one first, or raise max-queues"}
	ErrQueueFixed    = &fault.Error{Kind: fault.Conflict, Slug: fault.SlugQueueFixed, Detail: "the queue is part of the service's configuration"}
	// ErrReserved is the error of writing to a ticket's channel, or of changing its subscribers, from outside.
	ErrReserved = &fault.Error{Kind: fault.Forbidden, Slug: fault.SlugReserved, Field: "channel", Detail: "channels whose names start with " + ChannelPrefix + " are written by the service only"}
)

// Errors of a store that no client sees.
var (
	ErrLeaseLost   = errors.New("the lease on the queue is held by another director")
	ErrQueueIdle   = errors.New("the queue is empty, and nobody directs it")
	ErrChangesLost = errors.New("changes of the queue are gone that were not read")
	// ErrNotAssigned is the error of an assignment that the storage refuses and always will. Nothing was assigned.
	ErrNotAssigned = errors.New("the storage refused the assignment")
	ErrUndone      = errors.New("the creation was given up before it arrived")
	// ErrLaterTicket is the error of publishing an assignment of a ticket whose ID a later ticket has.
	ErrLaterTicket = errors.New("a later life of the ticket's channel has begun")
)

// InvalidTicket returns an error with fault.SlugInvalidTicket. field is the part of the ticket that is wrong.
func InvalidTicket(field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidTicket, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// InvalidQueue returns an error with fault.SlugInvalidQueue. field is the path of what is wrong in the definition.
func InvalidQueue(field, format string, args ...any) error {
	return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidQueue, Field: field, Detail: fmt.Sprintf(format, args...)}
}
