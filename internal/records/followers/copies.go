package followers

import (
	"context"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/records"
)

// Subscriber is the job's name on the channels that it reads.
const Subscriber = channel.CopiesSubscriber

// MaxPending is how many channels can have messages that aren't copied yet.
const MaxPending = 100_000

// settleAfter is the age of a channel's last announcement after which its publish has certainly ended.
const settleAfter = time.Minute

// ErrFull is the error of a publish while MaxPending channels have messages that aren't copied yet.
var ErrFull = &fault.Error{
	Kind: fault.Unavailable, Slug: fault.SlugOverloaded, RetryAfter: 10 * time.Second,
	Detail: "too many channels have messages that aren't copied to followers yet; trying again is safe",
}

// Mark is when a message of a channel was last announced, as the store writes it. "" is never.
type Mark string

// Store keeps the set of channels with messages that aren't copied yet. Many goroutines may use it.
type Store interface {
	// Announce records that a channel is going to have messages. Errors: ErrFull.
	Announce(ctx context.Context, channel string) error
	// Age returns when a message was last announced, and how long ago; "" if there is nothing to copy.
	Age(ctx context.Context, channel string) (at Mark, age time.Duration, err error)
	// Settle removes a channel unless a message was announced after at. It reports whether it did.
	Settle(ctx context.Context, channel string, at Mark) (removed bool, err error)
	// Pending calls each with every channel that exists the whole time, at least once.
	Pending(ctx context.Context, each func(channel string)) error
	// Watch calls announced with each channel that is announced, until stop. It calls lost when it has begun, and after
	// each interruption: announcements may have been missed. Both return at once.
	Watch(announced func(channel string), lost func()) (stop func())
}

// Announcer is notified by the channel service before messages are published.
type Announcer struct {
	store   Store
	sources Sources
}

// NewAnnouncer returns an Announcer on a store, for the channels of sources.
func NewAnnouncer(store Store, sources Sources) *Announcer { return &Announcer{store, sources} }

// Announce implements channel.Copies. Channels that can't have followers are ignored.
func (a *Announcer) Announce(ctx context.Context, name string) (bool, error) {
	if !a.sources.Followed(name) {
		return false, nil
	}
	return true, a.store.Announce(ctx, name)
}

// Channels reads and publishes messages for the job.
type Channels interface {
	Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error)
	PublishEach(ctx context.Context, requests []channel.PublishRequest) []channel.PublishResult
}

// Audience returns the followers of a channel's entity, or ErrNotFollowed. *Followers implements it.
type Audience interface {
	Of(ctx context.Context, channel string) ([]records.ID, error)
}

// Leases runs a function in one process at a time. *lease.Manager implements it.
type Leases interface {
	Hold(ctx context.Context, name string, f func(ctx context.Context, fence uint64) error) error
}

// Outcome is the result of a copy.
type Outcome string

// The outcomes of copies.
const (
	Delivered Outcome = "delivered"
	Duplicate Outcome = "duplicate" // the follower had the message already
	Differs   Outcome = "differs"   // the follower had another message with this ID, and doesn't receive this one
	Refused   Outcome = "refused"   // the follower has no channel, or it refuses the message
	Expired   Outcome = "expired"   // a message that expired before it was copied
	Purged    Outcome = "purged"    // a message that an operator purged before it was copied
	Damaged   Outcome = "damaged"   // a message that can't be read any more, since its storage is damaged
)

// Metrics counts copies.
type Metrics interface {
	Count(o Outcome, n int)
}
