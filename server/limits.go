package server

import (
	"context"
	"errors"
	"time"

	"github.com/tidemark-dev/tidemark/access/limits"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/matchmaking"
	"github.com/tidemark-dev/tidemark/matchmaking/service"
)

// limitedChannels is the channels as far as the limits of each client allow.
type limitedChannels struct{ *channel.Service }

// Publish publishes messages and counts their bytes. A client that may make no channel publishes to those that exist.
func (c *limitedChannels) Publish(ctx context.Context, name string, drafts []channel.Draft) ([]channel.Published,
	error) {
	client, bytes := limits.From(ctx), 0
	for _, d := range drafts {
		bytes += len(d.Content)
	}
	if err := client.Publish(ctx, bytes); err != nil {
		return nil, err
	}
	existing := !client.MayMake(limits.NewChannels)
	published, err := c.PublishWith(ctx, channel.PublishRequest{Channel: name, Drafts: drafts, Existing: existing})
	switch {
	case existing && errors.Is(err, channel.ErrNoChannel):
		return nil, client.Refuse(limits.NewChannels)
	case err == nil && published[0].Begun:
		client.Made(limits.NewChannels)
	}
	return published, err
}

// Subscribe makes a subscriber. A client that may make none, or no channel, gets those that exist.
func (c *limitedChannels) Subscribe(ctx context.Context, name, subscriber string, from channel.From) (
	channel.Subscription, error) {
	client := limits.From(ctx)
	r := channel.SubscribeRequest{
		Channel: name, Subscriber: subscriber, From: from,
		ExistingChannel: !client.MayMake(limits.NewChannels), Existing: !client.MayMake(limits.NewSubscribers),
	}
	s, err := c.SubscribeWith(ctx, r)
	switch {
	case r.Existing && errors.Is(err, channel.ErrNoSubscriber):
		return s, client.Refuse(limits.NewSubscribers)
	case r.ExistingChannel && errors.Is(err, channel.ErrNoChannel):
		return s, client.Refuse(limits.NewChannels)
	case err != nil:
		return s, err
	}
	if s.Begun {
		client.Made(limits.NewChannels)
	}
	if s.Created {
		client.Made(limits.NewSubscribers)
	}
	return s, nil
}

// Fetch fetches messages. It counts as waiting if it may wait.
func (c *limitedChannels) Fetch(ctx context.Context, q channel.Query) (channel.Delivery, error) {
	done, err := wait(ctx, q.Wait, 1)
	if err != nil {
		return channel.Delivery{}, err
	}
	defer done()
	return c.Service.Fetch(ctx, q)
}

// Next acknowledges and fetches messages. It counts as waiting if it may wait.
func (c *limitedChannels) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	done, err := wait(ctx, q.Wait, 1)
	if err != nil {
		return channel.Delivery{}, err
	}
	defer done()
	return c.Service.Next(ctx, q, handle)
}

// sourcesPerWait is how many sources of a FetchMany count as one request that waits. They need about as much memory:
// half of it if others wait on the same channels, half as much again if nobody does.
const sourcesPerWait = 8

// FetchMany fetches messages from several channels. If it may wait, each 8 of them count as one request that waits.
func (c *limitedChannels) FetchMany(ctx context.Context, q channel.ManyQuery) (channel.Deliveries, error) {
	done, err := wait(ctx, q.Wait, (len(q.From)+sourcesPerWait-1)/sourcesPerWait)
	if err != nil {
		return channel.Deliveries{}, err
	}
	defer done()
	return c.Service.FetchMany(ctx, q)
}

func wait(ctx context.Context, longest time.Duration, requests int) (done func(), err error) {
	if longest <= 0 {
		return func() {}, nil
	}
	return limits.From(ctx).Wait(requests)
}

// limitedMatchmaking is the matchmaking as far as the limits of each client allow.
type limitedMatchmaking struct{ Matchmaking }

// Create creates a ticket and counts it, also if it exists.
func (m *limitedMatchmaking) Create(ctx context.Context, n service.NewTicket) (t matchmaking.Ticket, created bool,
	err error) {
	if err := limits.From(ctx).Ticket(ctx); err != nil {
		return matchmaking.Ticket{}, false, err
	}
	return m.Matchmaking.Create(ctx, n)
}

// Await waits for an assignment, and counts as waiting.
func (m *limitedMatchmaking) Await(ctx context.Context, id string) (*matchmaking.Assignment, error) {
	done, err := limits.From(ctx).Wait(1)
	if err != nil {
		return nil, err
	}
	defer done()
	return m.Matchmaking.Await(ctx, id)
}

// AwaitEnd waits for the end of a ticket, and counts as waiting.
func (m *limitedMatchmaking) AwaitEnd(ctx context.Context, queue, id string) error {
	done, err := limits.From(ctx).Wait(1)
	if err != nil {
		return err
	}
	defer done()
	return m.Matchmaking.AwaitEnd(ctx, queue, id)
}
