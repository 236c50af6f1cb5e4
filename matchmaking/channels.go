package matchmaking

import (
	"context"

	"github.com/tidemark-dev/tidemark/channel"
)

// Channels is what matchmaking needs of the channels that assignments are delivered on. *channel.Service is one.
type Channels interface {
	// Open makes a channel and a subscriber on it where they are missing, and gives the label that the channel has:
	// the one given here, if it had none.
	Open(ctx context.Context, name, subscriber, label string) (has string, err error)
	// Label gives a channel's label. Errors: channel.ErrNoChannel, also where it has none.
	Label(ctx context.Context, name string) (string, error)
	// Publish appends drafts to a channel.
	Publish(ctx context.Context, name string, drafts []channel.Draft) ([]channel.Published, error)
	// Unsubscribe removes a subscriber and ends its waiting fetches.
	Unsubscribe(ctx context.Context, name, subscriber string) error
}
