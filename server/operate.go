package server

import (
	"context"

	"github.com/tidemark-dev/tidemark/channel"
)

// operations are the actions of operators on channels. They may read all channels, and change those that clients may
// write to: the service's own messages, such as assignments, reach their readers.
type operations struct {
	channel *channel.Service
	reserved
}

// Channels lists channels.
func (o operations) Channels(ctx context.Context, prefix, cursor string, details bool) (channel.SummaryPage, error) {
	return o.channel.Channels(ctx, prefix, cursor, details)
}

// Policy returns the policy of a channel, and the pattern of its rule.
func (o operations) Policy(name string) (channel.Policy, string, error) {
	return o.channel.Policy(name)
}

// Connected returns who waits on a channel at this server.
func (o operations) Connected(name, after string, limit int) (channel.Connected, error) {
	return o.channel.Connected(name, after, limit)
}

// Peek reads messages without a subscriber.
func (o operations) Peek(ctx context.Context, name string, from channel.From, limit int) (channel.Peek, error) {
	return o.channel.Peek(ctx, name, from, limit)
}

// Purge removes messages.
func (o operations) Purge(ctx context.Context, r channel.PurgeRequest) (channel.Purged, error) {
	if err := o.write(r.Channel); err != nil {
		return channel.Purged{}, err
	}
	return o.channel.Purge(ctx, r)
}

// Delete removes a channel.
func (o operations) Delete(ctx context.Context, name string) error {
	if err := o.write(name); err != nil {
		return err
	}
	return o.channel.Delete(ctx, name)
}

// Seek sets a mark.
func (o operations) Seek(ctx context.Context, r channel.SeekRequest) (channel.Sought, error) {
	if err := o.write(r.Channel); err != nil {
		return channel.Sought{}, err
	}
	return o.channel.Seek(ctx, r)
}
