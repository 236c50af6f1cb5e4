package matchmaking

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"
)

// Lookup maps caller-chosen ticket IDs to queues; other IDs contain the queue, see QueueOf. An ID belongs to one queue
// for one life of the ticket's channel. The lookup is stored with the channels, since an ID and the life of its channel
// change in one step. All methods may be called by many goroutines.
type Lookup interface {
	// Reserve assigns an ID to a queue: it begins a life of the ticket's channel, with the subscriber Subscriber at the
	// channel's clock. If the ID belongs to a queue in a life other than the one that the reservation replaces, nothing
	// changes. Reserve returns the current owner of the ID.
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

// Subscriptions ends the waiting fetches of players.
type Subscriptions interface {
	// Unsubscribe removes the subscriber of a ticket's channel, which ends its waiting fetches. It succeeds if the
	// subscriber does not exist.
	//
	// If the channel is in a life later than the ticket's epoch, nothing is removed; an epoch of zero means that the
	// ticket's ID is never reused.
	Unsubscribe(ctx context.Context, ticketID string, epoch ulid.ULID) error
}
