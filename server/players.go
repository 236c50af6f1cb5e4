package server

import (
	"context"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	v1 "github.com/tidemark-dev/tidemark/server/v1"
	"github.com/tidemark-dev/tidemark/server/web"
)

// presence is told which players wait for a match.
type presence interface {
	Attend(ctx context.Context, ticket string) (stop func()) // the ticket's player is present until stop is called
}

// attendedChannels reports to players whose poll of a ticket's channel is in progress.
type attendedChannels struct {
	v1.Channels
	players presence
}

// Fetch fetches messages. If it is a player's poll, the player is present meanwhile.
func (a *attendedChannels) Fetch(ctx context.Context, q channel.Query) (channel.Delivery, error) {
	defer a.attend(ctx, &q)()
	return a.Channels.Fetch(ctx, q)
}

// Next acknowledges and fetches messages. If it is a player's poll, the player is present meanwhile.
func (a *attendedChannels) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	defer a.attend(ctx, &q)()
	return a.Channels.Next(ctx, q, handle)
}

// attend begins a player's presence if q is a player's poll. The only message of such a channel is the assignment, so q
// listens first.
func (a *attendedChannels) attend(ctx context.Context, q *channel.Query) (stop func()) {
	id, ok := strings.CutPrefix(q.Channel, matchmaking.ChannelPrefix)
	if !ok || q.Subscriber != matchmaking.Subscriber {
		return func() {}
	}
	q.ListenFirst = true
	return a.players.Attend(ctx, id)
}

// refuseTicketChannels wraps the handlers that write to a channel: only the service writes to the channels of tickets.
func refuseTicketChannels(next web.Handler) web.Handler {
	return func(c *web.Call) error {
		if strings.HasPrefix(c.Param(0), matchmaking.ChannelPrefix) {
			return matchmaking.ErrReserved
		}
		return next(c)
	}
}

// unwrapped wraps nothing.
func unwrapped(next web.Handler) web.Handler { return next }
