package matchmaking

import (
	"context"
	"time"

	"github.com/oklog/ulid/v2"
)

// Lookup maps the ID of a ticket that its creator has chosen to its queue; other IDs name it, see QueueOf. An ID
// belongs to one queue for one life of the ticket's channel. The lookup is stored with the channels, since an ID and
// the life of its channel change in one step. All methods may be called by many goroutines.
type Lookup interface {
	// Reserve makes an ID belong to a queue: it begins a life of the ticket's channel, with the subscriber Subscriber
	// at the channel's clock. If the ID belongs to a queue in a life other than the one that the reservation replaces,
	// nothing changes. Reserve returns the owner that the ID has now.
	Reserve(ctx context.Context, r Reservation) (Owner, error)
	// Owner returns the owner of an ID. Errors: ErrNoTicket.
	Owner(ctx context.Context, ticketID string) (Owner, error)
}

// Owner is the queue to which the ID of a ticket belongs.
type Owner struct {
	Queue string
	Epoch ulid.ULID // of the life of the ticket's channel in which it does
}

// Reservation is the owner that an ID is to have.
type Reservation struct {
	TicketID string
	Owner                  // its Epoch is later than Replaces
	Replaces ulid.ULID     // epoch of the owner that ends; zero: the ID belongs to no queue
	TTL      time.Duration // life of the ticket's channel without activity
}

// Subscriptions ends the waiting of players.
type Subscriptions interface {
	// Unsubscribe removes the subscriber of a ticket's channel, which ends its waiting fetches. It succeeds if there is
	// none.
	//
	// In a life of the channel after the ticket's epoch it removes nothing; zero: the ticket's ID is never used again.
	Unsubscribe(ctx context.Context, ticketID string, epoch ulid.ULID) error
}
