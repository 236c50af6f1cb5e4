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

// refuse is check for a call whose first parameter is the channel.
func (p prefixes) refuse(c *web.Call) error { return p.check(c.Param(0)) }

// keptChannels is channels, of which some are also read by the service only: who fetches and acknowledges as one of its
// subscribers keeps messages from it. Routes of one channel refuse such calls themselves: a frame here would cost each
// waiting fetch some stack.
type keptChannels struct {
	v1.Channels
	kept prefixes
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
