package server

import (
	"context"
	"strings"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	v1 "github.com/tidemark-dev/tidemark/server/v1"
	"github.com/tidemark-dev/tidemark/server/web"
)

// prefixes is what the names of channels begin with that only the service writes to.
type prefixes []string

// check returns an error if a channel is one of them.
func (p prefixes) check(name string) error {
	for _, prefix := range p {
		if strings.HasPrefix(name, prefix) {
			return &fault.Error{
				Kind: fault.Forbidden, Slug: fault.SlugReserved, Field: "channel",
				Detail: "channels whose names start with " + prefix + " are written by the service only",
			}
		}
	}
	return nil
}

// refuse wraps the handlers that write to a channel.
func (p prefixes) refuse(next web.Handler) web.Handler {
	return func(c *web.Call) error {
		if err := p.check(c.Param(0)); err != nil {
			return err
		}
		return next(c)
	}
}

// keptChannels is channels, of which some are also read by the service only: who fetches and acknowledges as one of its subscribers
// keeps messages from it.
type keptChannels struct {
	v1.Channels
	kept prefixes
}

// Fetch fetches messages.
func (k *keptChannels) Fetch(ctx context.Context, q channel.Query) (channel.Delivery, error) {
	if err := k.kept.check(q.Channel); err != nil {
		return channel.Delivery{}, err
	}
	return k.Channels.Fetch(ctx, q)
}

// Ack acknowledges messages.
func (k *keptChannels) Ack(ctx context.Context, name, subscriber, handle string) error {
	if err := k.kept.check(name); err != nil {
		return err
	}
	return k.Channels.Ack(ctx, name, subscriber, handle)
}

// Next acknowledges and fetches messages.
func (k *keptChannels) Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error) {
	if err := k.kept.check(q.Channel); err != nil {
		return channel.Delivery{}, err
	}
	return k.Channels.Next(ctx, q, handle)
}

// FetchMany acknowledges and fetches messages of many subscribers.
func (k *keptChannels) FetchMany(ctx context.Context, q channel.ManyQuery) (channel.Deliveries, error) {
	for _, from := range q.From {
		if err := k.kept.check(from.Channel); err != nil {
			return channel.Deliveries{}, err
		}
	}
	return k.Channels.FetchMany(ctx, q)
}
