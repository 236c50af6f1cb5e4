package matchmaking

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"
)

// Lookup is how a ticket's queue is found by the ticket's ID alone. An ID belongs to one queue for one life of the
// ticket's channel. The lookup is kept with the channels, since an ID and its channel's life change in one step. Every
// method may be called by many goroutines.
type Lookup interface {
	// Reserve makes an ID belong to a queue: it begins a life of the ticket's channel, with the subscriber Subscriber at
	// the channel's clock. Where the ID belongs to a queue already, and not in the life that the reservation replaces,
	// nothing changes. It returns the owner that the ID has then.
	Reserve(ctx context.Context, r Reservation) (Owner, error)
	// Owner returns the owner of an ID. Errors: ErrNoTicket.
	Owner(ctx context.Context, ticketID string) (Owner, error)
}

// Owner is the queue that a ticket's ID belongs to.
type Owner struct {
	Queue string
	Epoch ulid.ULID // of the life of the ticket's channel for which it is so
}

// Reservation is the owner that an ID is to have.
type Reservation struct {
	TicketID string
	Owner                  // its Epoch is later than Replaces
	Replaces ulid.ULID     // epoch of the owner that ends; zero: the ID belongs to no queue
	TTL      time.Duration // life of the ticket's channel without activity
}

// Subscriptions ends what players wait for.
type Subscriptions interface {
	// Unsubscribe removes the subscriber of a ticket's channel, which ends its waiting fetches. Removing one that isn't
	// there succeeds.
	Unsubscribe(ctx context.Context, ticketID string) error
}
