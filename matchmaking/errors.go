package matchmaking

import (
	"errors"
	"fmt"

	"github.com/tidemark-dev/tidemark/channel"
)

// The slugs of the errors that this package and the stores return, beside those of package channel.
const (
	SlugInvalidTicket  channel.Slug = "invalid-ticket"
	SlugInvalidQueue   channel.Slug = "invalid-queue"
	SlugNoTicket       channel.Slug = "ticket-not-found"
	SlugNoQueue        channel.Slug = "queue-not-found"
	SlugTicketExists   channel.Slug = "ticket-exists"
	SlugTicketMatched  channel.Slug = "ticket-matched"
	SlugTicketTooLarge channel.Slug = "ticket-too-large"
	SlugQueueFull      channel.Slug = "queue-full"
	SlugQueueFixed     channel.Slug = "queue-configured"
	SlugQueueInUse     channel.Slug = "queue-in-use"
	SlugTooManyQueues  channel.Slug = "too-many-queues"
	SlugReserved       channel.Slug = "channel-reserved"
)

// Errors that callers compare with errors.Is, which compares the slug.
var (
	ErrNoTicket = &channel.Error{Kind: channel.NotFound, Slug: SlugNoTicket, Detail: "the ticket doesn't exist"}
	ErrNoQueue  = &channel.Error{Kind: channel.NotFound, Slug: SlugNoQueue, Detail: "the queue doesn't exist"}
	// ErrTicketExists is the error of creating a ticket under an ID that a ticket of another queue has.
	ErrTicketExists  = &channel.Error{Kind: channel.Conflict, Slug: SlugTicketExists, Detail: "a ticket of another queue has this ID"}
	ErrTicketMatched = &channel.Error{Kind: channel.Conflict, Slug: SlugTicketMatched, Detail: "the ticket is in a match already"}
	ErrQueueFull     = &channel.Error{Kind: channel.Unavailable, Slug: SlugQueueFull, Detail: "the queue has as many tickets waiting as it may"}
	// ErrTooManyQueues is the error of making a queue where there are as many as there may be.
	ErrTooManyQueues = &channel.Error{Kind: channel.Conflict, Slug: SlugTooManyQueues, Detail: "there are as many queues as the service allows: delete one first, or raise max-queues"}
	ErrQueueFixed    = &channel.Error{Kind: channel.Conflict, Slug: SlugQueueFixed, Detail: "the queue is part of the service's configuration"}
	// ErrReserved is the error of writing to a ticket's channel, or of changing its subscribers, from outside.
	ErrReserved = &channel.Error{Kind: channel.Forbidden, Slug: SlugReserved, Field: "channel", Detail: "channels whose names start with " + ChannelPrefix + " are written by the service only"}
)

// Errors of a store that no client sees.
var (
	ErrLeaseLost   = errors.New("the lease on the queue is held by another director")
	ErrQueueIdle   = errors.New("the queue is empty, and nobody directs it")
	ErrChangesLost = errors.New("changes of the queue are gone that were not read")
	// ErrNotAssigned is the error of an assignment that the storage refuses and always will. Nothing was assigned.
	ErrNotAssigned = errors.New("the storage refused the assignment")
	ErrUndone      = errors.New("the creation was given up before it arrived")
)

func invalidTicket(field, format string, args ...any) error {
	return &channel.Error{Kind: channel.Invalid, Slug: SlugInvalidTicket, Field: field, Detail: fmt.Sprintf(format, args...)}
}

func invalidQueue(field, format string, args ...any) error {
	return &channel.Error{Kind: channel.Invalid, Slug: SlugInvalidQueue, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// queueInUse is the error of deleting a queue in which there is something.
func queueInUse(name string, state QueueState) error {
	return &channel.Error{
		Kind: channel.Conflict, Slug: SlugQueueInUse,
		Detail: fmt.Sprintf("%d tickets wait in the queue %s, and %d assignments are on their way: let them be matched, cancelled, or expire first",
			state.Searching+state.Pending, name, state.Outgoing),
	}
}
