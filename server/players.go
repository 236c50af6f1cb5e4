package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// players records which players wait for a match, and delivers their assignments again that were lost.
type players interface {
	Attend(ctx context.Context, ticket string) (stop func()) // the ticket's player is present until stop is called
	// Redeliver publishes a ticket's assignment again, and reports whether there is one. Errors: matchmaking.ErrNoTicket.
	Redeliver(ctx context.Context, ticket string) (published bool, err error)
	// ForgetOwner makes the guard read the ticket's owner again, unless the ID can never be another ticket's.
	ForgetOwner(ticket string)
}

// longPoll is the duration of a poll from which on it looks at the ticket if it ends empty: a fail-over may have lost
// it, or its message.
const longPoll = time.Second

// ticketOf returns the ticket that a channel is of.
func (c *channels) ticketOf(name string) (id string, ok bool) {
	if c.players == nil {
		return "", false
	}
	return strings.CutPrefix(name, matchmaking.ChannelPrefix)
}

// polled returns the ticket that a channel is of, if the subscriber is its player.
func (c *channels) polled(name, subscriber string) (id string, ok bool) {
	if subscriber != matchmaking.Subscriber {
		return "", false
	}
	return c.ticketOf(name)
}

// poll is next for the player of a ticket, who is present meanwhile. The only message of a ticket's channel is the
// assignment, so it listens first.
func (c *channels) poll(ctx context.Context, id string, q channel.Query, handle string) (channel.Delivery, error) {
	defer c.players.Attend(ctx, id)()
	q.ListenFirst = true
	d, err := c.next(ctx, q, handle)
	if err == nil && len(d.Messages) == 0 {
		switch missed, gone := c.look(ctx, id, q.Wait); {
		case gone != nil && d.Receipt == "": // else the message has expired, which the player is told first
			return channel.Delivery{}, gone
		case missed:
			q.Wait = 0
			d, err = c.next(ctx, q, "")
		}
	}
	if err == nil && len(d.Messages) > 0 {
		err = c.recheck(ctx, id)
	}
	if err != nil {
		return channel.Delivery{}, err
	}
	return d, nil
}

// look reports whether a poll that was empty missed the assignment, which is published now. If the storage fails, a
// later poll looks again. Error: channel.ErrNoSubscriber if the ticket doesn't exist.
func (c *channels) look(ctx context.Context, id string, wait time.Duration) (missed bool, err error) {
	if ctx.Err() != nil || wait < longPoll {
		return false, nil
	}
	published, err := c.players.Redeliver(ctx, id)
	if errors.Is(err, matchmaking.ErrNoTicket) {
		return false, channel.ErrNoSubscriber
	}
	return published && err == nil, nil
}

// recheck returns an error if a ticket isn't the client's any more: during a poll, another ticket may have got its ID.
func (c *channels) recheck(ctx context.Context, id string) error {
	if c.guard == nil {
		return nil
	}
	c.players.ForgetOwner(id)
	return c.guard.Check(ctx, access.From(ctx), access.Subscribe, access.Resource{
		Channel: matchmaking.ChannelOf(id), Subscriber: matchmaking.Subscriber,
	})
}

// playerPolls are the IDs of tickets by the sources of a FetchMany that are players' polls.
type playerPolls map[int]string

func (c *channels) polledSources(from []channel.Source) playerPolls {
	polls := playerPolls(nil)
	for i := range from {
		if id, ok := c.polled(from[i].Channel, from[i].Subscriber); ok {
			if polls == nil {
				polls = playerPolls{}
			}
			polls[i] = id
		}
	}
	return polls
}

// pollMany is fetchMany with polls of players among the sources, for which it does what poll does for one.
func (c *channels) pollMany(ctx context.Context, polls playerPolls, q channel.ManyQuery) (channel.Deliveries, error) {
	for _, id := range polls {
		defer c.players.Attend(ctx, id)()
	}
	began := time.Now()
	d, err := c.fetchMany(ctx, q)
	if err != nil {
		return d, err
	}
	waited := q.Wait
	if len(d.Found)+len(d.Problems) > 0 {
		waited = time.Since(began)
	}
	if missed := c.lookAll(ctx, polls, waited, &d); missed && len(d.Found)+len(d.Problems) == 0 {
		q.Wait = 0
		d, err = c.fetchMany(ctx, q)
	}
	c.recheckAll(ctx, polls, &d)
	return d, err
}

// lookAll is look for all tickets for which nothing was found. It adds a problem for each that doesn't exist.
func (c *channels) lookAll(ctx context.Context, polls playerPolls, wait time.Duration, d *channel.Deliveries) (
	missed bool) {
	left := maps.Clone(polls)
	for i := range d.Found {
		delete(left, d.Found[i].Source)
	}
	for _, p := range d.Problems {
		delete(left, p.Source)
	}
	for source, id := range left {
		published, err := c.look(ctx, id, wait)
		missed = missed || published
		if err != nil {
			d.Problems = append(d.Problems, channel.Problem{Source: source, Err: err})
		}
	}
	slices.SortFunc(d.Problems, func(a, b channel.Problem) int { return cmp.Compare(a.Source, b.Source) })
	return missed
}

// recheckAll replaces the results of tickets that aren't the client's any more: see recheck.
func (c *channels) recheckAll(ctx context.Context, polls playerPolls, d *channel.Deliveries) {
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
