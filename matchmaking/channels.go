package matchmaking

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
)

// Channels is what matchmaking needs of the channels that assignments are delivered on. *channel.Service is one.
type Channels interface {
	// Open begins a life of a channel, unless the channel has a label and is in another life than the one to be
	// replaced. It returns the life that the channel is in.
	Open(ctx context.Context, o channel.Opening) (life channel.Life, begun bool, err error)
	// Life reads the life of a channel that has a label. Errors: channel.ErrNoChannel, also where it has none.
	Life(ctx context.Context, name string) (channel.Life, error)
	// PublishIn appends drafts to a channel, unless a later life than theirs has begun: channel.ErrLaterLife.
	PublishIn(ctx context.Context, name string, epoch ulid.ULID, drafts []channel.Draft) ([]channel.Published, error)
	// Unsubscribe removes a subscriber and ends its waiting fetches.
	Unsubscribe(ctx context.Context, name, subscriber string) error
}
