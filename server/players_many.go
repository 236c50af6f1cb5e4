package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
)

// playerPolls are the IDs of tickets by the sources that are players' polls.
type playerPolls map[int]string

// FetchMany fetches messages from several channels. For players' polls among them it does what poll does for one.
func (c *ticketChannels) FetchMany(ctx context.Context, q channel.ManyQuery) (channel.Deliveries, error) {
	polls := playerPolls{}
	for i, from := range q.From {
		if id, ok := strings.CutPrefix(from.Channel, matchmaking.ChannelPrefix); ok &&
			from.Subscriber == matchmaking.Subscriber {
			polls[i] = id
			defer c.players.Attend(ctx, id)()
		}
	}
	began := time.Now()
	d, err := c.Channels.FetchMany(ctx, q)
	if len(polls) == 0 || err != nil {
		return d, err
	}
	again := c.openAll(ctx, polls, &d)
	if len(d.Found)+len(d.Problems) == 0 && !again && c.anyMissed(ctx, polls, q.Wait) {
		again, q.Wait = true, 0
	}
	if len(d.Found)+len(d.Problems) == 0 && again {
		q.Wait = max(0, q.Wait-time.Since(began))
		d, err = c.Channels.FetchMany(ctx, q)
	}
	c.recheckAll(ctx, polls, &d)
	return d, err
}

// openAll makes the channels of tickets that have none, reports whether it has made one, and removes the problem of
// each.
func (c *ticketChannels) openAll(ctx context.Context, polls playerPolls, d *channel.Deliveries) (opened bool) {
	d.Problems = slices.DeleteFunc(d.Problems, func(p channel.Problem) bool {
		id, ok := polls[p.Source]
		if !ok || !errors.Is(p.Err, channel.ErrNoSubscriber) {
			return false
		}
		made, _ := c.open(ctx, id) // if the storage fails, the next fetch tries again
		opened = opened || made
		return made
	})
	return opened
}

// anyMissed is missed for all tickets.
func (c *ticketChannels) anyMissed(ctx context.Context, polls playerPolls, wait time.Duration) (any bool) {
	for _, id := range polls {
		any = c.missed(ctx, id, wait) || any
	}
	return any
}

// recheckAll replaces what tickets have that aren't the client's any more: see recheck.
func (c *ticketChannels) recheckAll(ctx context.Context, polls playerPolls, d *channel.Deliveries) {
	d.Found = slices.DeleteFunc(d.Found, func(f channel.Found) bool {
		id, ok := polls[f.Source]
		if !ok {
			return false
		}
		err := c.recheck(ctx, id)
		if err != nil {
			d.Problems = append(d.Problems, channel.Problem{Source: f.Source, Err: err})
		}
		return err != nil
	})
}
