package server

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/matchmaking"
)

// players records which players wait for a match, and makes the channels of their tickets.
type players interface {
	Attend(ctx context.Context, ticket string) (stop func()) // the ticket's player is present until stop is called
	// OpenChannel makes the channel of a ticket that was created without one. Errors: matchmaking.ErrNoTicket.
	OpenChannel(ctx context.Context, ticket string) error
	// Listen is OpenChannel for any ticket, whose channel exists. It reports whether the assignment was published.
	Listen(ctx context.Context, ticket string) (published bool, err error)
	// ForgetOwner makes the guard read the ticket's owner again, unless the ID can never be another ticket's.
	ForgetOwner(ticket string)
}

// A poll of at least this duration that ends empty looks at the ticket: a fail-over may have lost it, or its message,
// or the request for its channel. Of shorter ones one in shortPolls does.
const (
	longPoll   = time.Second
	shortPolls = 16
)

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
	switch {
	case err == nil:
		return d, nil
	case !errors.Is(err, channel.ErrNoSubscriber):
		return channel.Delivery{}, err
	}
	if made, failed := c.open(ctx, id); !made {
		return d, cmp.Or(failed, err)
	}
	return c.next(ctx, q, handle)
}

// look reports whether a poll that was empty missed the assignment, which is published now. If the storage fails, a
// later poll looks again. Error: channel.ErrNoSubscriber if the ticket doesn't exist.
func (c *channels) look(ctx context.Context, id string, wait time.Duration) (missed bool, err error) {
	if ctx.Err() != nil || wait < longPoll && rand.IntN(shortPolls) > 0 { //nolint:gosec // it only bounds the work
		return false, nil
	}
	published, err := c.players.Listen(ctx, id)
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

// open makes the channel of a ticket, and reports whether it exists now.
func (c *channels) open(ctx context.Context, id string) (made bool, err error) {
	err = c.players.OpenChannel(ctx, id)
	if errors.Is(err, matchmaking.ErrNoTicket) {
		return false, nil
	}
	return err == nil, err
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
	again := c.openAll(ctx, polls, &d)
	if !again {
		waited := q.Wait
		if len(d.Found)+len(d.Problems) > 0 {
			waited = time.Since(began)
		}
		if c.lookAll(ctx, polls, waited, &d) {
			again, q.Wait = true, 0
		}
	}
	if len(d.Found)+len(d.Problems) == 0 && again {
		q.Wait = max(0, q.Wait-time.Since(began))
		d, err = c.fetchMany(ctx, q)
	}
	c.recheckAll(ctx, polls, &d)
	return d, err
}

// openAll makes the channels of tickets that have none, reports whether it has made one, and removes the problem of
// each.
func (c *channels) openAll(ctx context.Context, polls playerPolls, d *channel.Deliveries) (opened bool) {
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
