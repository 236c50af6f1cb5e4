// Package delivery delivers assignments on the channels of a channel.Service, and again to players that poll if they
// were lost: it is the adapter between matchmaking, which knows no channels, and channel, which knows no tickets.
package delivery

import (
	"context"
	"errors"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// Service has the required operations on channels. *channel.Service implements it.
type Service interface {
	// PublishEach publishes on several channels together, each in one life of its channel, or with a subscriber if the
	// channel doesn't exist.
	PublishEach(ctx context.Context, requests []channel.PublishRequest) []channel.PublishResult
	// Subscribe makes a channel and a subscriber if they don't exist.
	Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error)
	// Unsubscribe removes a subscriber, unless the channel is in a later life.
	Unsubscribe(ctx context.Context, name, subscriber string, last ulid.ULID) error
}

// Channels are the channels of tickets. It may be used by many goroutines.
type Channels struct{ service Service }

// New returns the channels of tickets, of a service.
func New(s Service) *Channels { return &Channels{service: s} }

// Publish puts assignments on their tickets' channels, together, each under the message ID that is
// [matchmaking.MessagePrefix] and the match's ID. It creates a missing channel with the subscriber
// [matchmaking.Subscriber], whose mark is before the assignment. It returns an error for each:
// matchmaking.ErrLaterTicket, or one of channel.Service's Publish.
func (c *Channels) Publish(ctx context.Context, entries []matchmaking.OutboxEntry) []error {
	requests, drafts := make([]channel.PublishRequest, len(entries)), make([]channel.Draft, len(entries))
	for i := range entries {
		e := &entries[i]
		drafts[i] = channel.Draft{ID: matchmaking.MessagePrefix + e.MatchID, Content: e.Content, Trace: e.Trace}
		requests[i] = channel.PublishRequest{
			Channel: matchmaking.ChannelOf(e.TicketID), Drafts: drafts[i : i+1 : i+1], Epoch: e.Epoch,
			Subscriber: matchmaking.Subscriber,
		}
	}
	errs := make([]error, len(entries))
	for i, r := range c.service.PublishEach(ctx, requests) {
		if errs[i] = r.Err; errors.Is(r.Err, channel.ErrLaterLife) {
			errs[i] = matchmaking.ErrLaterTicket
		}
	}
	return errs
}

// Open makes a ticket's channel and its subscriber if they don't exist. The subscriber's mark is before an assignment
// that was published earlier. Errors: those of channel.Service's Subscribe.
func (c *Channels) Open(ctx context.Context, ticketID string) error {
	_, err := c.service.Subscribe(ctx, channel.SubscribeRequest{
		Channel: matchmaking.ChannelOf(ticketID), Subscriber: matchmaking.Subscriber,
		From: channel.From{Start: channel.StartEarliest},
	})
	return err
}

// Unsubscribe removes the subscriber of a ticket's channel, which ends its waiting fetches, unless the channel is in a
// later life. Errors: those of channel.Service's Unsubscribe.
func (c *Channels) Unsubscribe(ctx context.Context, ticketID string, epoch ulid.ULID) error {
	return c.service.Unsubscribe(ctx, matchmaking.ChannelOf(ticketID), matchmaking.Subscriber, epoch)
}
