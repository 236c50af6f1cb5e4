package server

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	v1 "github.com/tidemark-dev/tidemark/server/v1"
)

// players is told which players wait for a match, and makes the channels that they ask for.
type players interface {
	Attend(ctx context.Context, ticket string) (stop func()) // the ticket's player is present until stop is called
	// OpenChannel makes the channel of a ticket that was created without one. Errors: matchmaking.ErrNoTicket.
	OpenChannel(ctx context.Context, ticket string) error
	// Listen is OpenChannel for a channel that exists. It reports whether the assignment was published.
	Listen(ctx context.Context, ticket string) (published bool, err error)
	// ForgetOwner makes the guard read the ticket's owner again, unless the ID can never be another ticket's.
	ForgetOwner(ticket string)
}

// ticketChannels is channels, those of tickets included: a player whose poll of one is in progress is present, and one
// that doesn't exist yet is made if its ticket exists.
type ticketChannels struct {
	v1.Channels
	players players
	guard   *access.Guard
}

// Fetch fetches messages. If it is a player's poll, the player is present meanwhile.
func (c *ticketChannels) Fetch(ctx context.Context, q channel.Query) (channel.Delivery, error) {
	return c.poll(ctx, q, func(q channel.Query) (channel.Delivery, error) { return c.Channels.Fetch(ctx, q) })
}

// Next acknowledges and fetches messages. If it is a player's poll, the player is present meanwhile.
func (c *ticketChannels) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	return c.poll(ctx, q, func(q channel.Query) (channel.Delivery, error) { return c.Channels.Next(ctx, q, handle) })
}

// A poll of at least so long that ends empty asks whether the ticket was assigned without a message: a fail-over can
// have lost that its channel is wanted. Of shorter ones one in shortPolls does.
const (
	longPoll   = time.Second
	shortPolls = 16
)

// poll polls a channel. The only message of a ticket's channel is the assignment, so a player's poll listens first.
func (c *ticketChannels) poll(
	ctx context.Context, q channel.Query, poll func(channel.Query) (channel.Delivery, error),
) (channel.Delivery, error) {
	id, ok := strings.CutPrefix(q.Channel, matchmaking.ChannelPrefix)
	if !ok || q.Subscriber != matchmaking.Subscriber {
		return poll(q)
	}
	defer c.players.Attend(ctx, id)()
	q.ListenFirst = true
	d, err := poll(q)
	if err == nil && len(d.Messages) == 0 && c.missed(ctx, id, q.Wait) {
		q.Wait = 0
		d, err = c.Channels.Fetch(ctx, q)
	}
	if err == nil && len(d.Messages) > 0 {
		err = c.recheck(ctx, id)
	}
	switch {
	case err == nil:
		return d, nil
	case !errors.Is(err, channel.ErrNoSubscriber):
		return channel.Delivery{}, err
	}
	if made, failed := c.open(ctx, id); !made {
		return d, cmp.Or(failed, err)
	}
	return poll(q)
}

// missed reports whether a poll that was empty missed the assignment, which is published now. If that fails, a later
// poll asks again.
func (c *ticketChannels) missed(ctx context.Context, id string, wait time.Duration) bool {
	// it bounds the work, and protects nothing
	if ctx.Err() != nil || wait < longPoll && rand.IntN(shortPolls) > 0 { //nolint:gosec
		return false
	}
	published, err := c.players.Listen(ctx, id)
	return published && err == nil
}

// recheck returns an error if a ticket isn't the client's any more: while a poll waited, another one may have got its
// ID.
func (c *ticketChannels) recheck(ctx context.Context, id string) error {
	if c.guard == nil {
		return nil
	}
	c.players.ForgetOwner(id)
	return c.guard.Check(ctx, access.From(ctx), access.Subscribe, access.Resource{
		Channel: matchmaking.ChannelOf(id), Subscriber: matchmaking.Subscriber,
	})
}

// Describe describes a channel.
func (c *ticketChannels) Describe(ctx context.Context, name string, page channel.Page) (channel.Description, error) {
	d, err := c.Channels.Describe(ctx, name, page)
	id, ok := strings.CutPrefix(name, matchmaking.ChannelPrefix)
	if !ok || !errors.Is(err, channel.ErrNoChannel) {
		return d, err
	}
	if made, failed := c.open(ctx, id); !made {
		return d, cmp.Or(failed, err)
	}
	return c.Channels.Describe(ctx, name, page)
}

// open makes the channel of a ticket, and reports whether it exists now.
func (c *ticketChannels) open(ctx context.Context, id string) (made bool, err error) {
	err = c.players.OpenChannel(ctx, id)
	if errors.Is(err, matchmaking.ErrNoTicket) {
		return false, nil
	}
	return err == nil, err
}
