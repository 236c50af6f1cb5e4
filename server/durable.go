package server

import (
	"context"

	"github.com/tidemark-dev/tidemark/channel"
)

// lives are the operations on streams of the Durable Streams protocol that no other transport has, as a
// *channel.Service.
type lives interface {
	Life(ctx context.Context, name string) (channel.Life, error)
	Read(ctx context.Context, q channel.ReadQuery) (channel.Reading, error)
	Delete(ctx context.Context, name string) error
}

// Life returns the current life of a channel.
func (c *channels) Life(ctx context.Context, name string) (channel.Life, error) {
	if err := c.reserved.read(name); err != nil {
		return channel.Life{}, err
	}
	return c.lives.Life(ctx, name)
}

// Read reads messages without a subscriber and counts them. It is one of the client's waits while it may wait.
func (c *channels) Read(ctx context.Context, q channel.ReadQuery) (r channel.Reading, err error) {
	if err := c.reserved.read(q.Channel); err != nil {
		return r, err
	}
	done, err := wait(ctx, q.Wait, 1)
	if err != nil {
		return r, err
	}
	defer done()
	if r, err = c.lives.Read(ctx, q); err != nil {
		return r, err
	}
	c.counts.delivered.Add(float64(len(r.Messages)))
	link(ctx, r.Messages)
	return r, nil
}

// Delete deletes a channel.
func (c *channels) Delete(ctx context.Context, name string) error {
	if err := c.reserved.write(name); err != nil {
		return err
	}
	return c.lives.Delete(ctx, name)
}
