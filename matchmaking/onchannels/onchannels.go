// Package onchannels delivers assignments on the channels of a channel.Service: it is the adapter between matchmaking,
// which knows no channels, and channel, which knows no tickets.
package onchannels

import (
	"context"
	"errors"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// Service is what is needed of the channels. *channel.Service is one.
type Service interface {
	// PublishIn publishes in one life of a channel.
	PublishIn(ctx context.Context, name string, epoch ulid.ULID, drafts []channel.Draft) ([]channel.Published, error)
	// Unsubscribe removes a subscriber.
	Unsubscribe(ctx context.Context, name, subscriber string) error
}

// Channels are the channels of tickets. It may be used by many goroutines.
type Channels struct{ service Service }

// New returns the channels of tickets, of a service.
func New(s Service) *Channels { return &Channels{service: s} }

// Publish puts an assignment on its ticket's channel, under the message ID that is [matchmaking.MessagePrefix] and the
// match's ID. Errors: matchmaking.ErrLaterTicket, and those of channel.Service's Publish.
func (c *Channels) Publish(ctx context.Context, epoch ulid.ULID, a *matchmaking.OutboxEntry) error {
	draft := channel.Draft{ID: matchmaking.MessagePrefix + a.MatchID, Content: a.Content}
	_, err := c.service.PublishIn(ctx, matchmaking.ChannelOf(a.TicketID), epoch, []channel.Draft{draft})
	if errors.Is(err, channel.ErrLaterLife) {
		return matchmaking.ErrLaterTicket
	}
	return err
}

// Unsubscribe removes the subscriber of a ticket's channel, which ends its waiting fetches. Errors: those of
// channel.Service's Unsubscribe.
func (c *Channels) Unsubscribe(ctx context.Context, ticketID string) error {
	return c.service.Unsubscribe(ctx, matchmaking.ChannelOf(ticketID), matchmaking.Subscriber)
}
