package v1

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Subscribers adds and removes subscribers.
type Subscribers interface {
	Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error)
	Unsubscribe(ctx context.Context, name, subscriber string, last ulid.ULID) error
}

type subscribers struct{ service Subscribers }

// subscribe is PUT /v1/channels/{channel}/subscribers/{subscriber}.
func (s *subscribers) subscribe(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeSubscribe(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	name, subscriber := c.Param(0), c.Param(1)
	sub, err := s.service.Subscribe(c.Context(), channel.SubscribeRequest{
		Channel: name, Subscriber: subscriber, From: channel.From(request.From),
	})
	if err != nil {
		return err
	}
	return c.Value(createdStatus(sub.Created), client.Subscription{
		Channel: name, Subscriber: subscriber, Created: sub.Created, Epoch: sub.Epoch.String(), Mark: sub.Clock,
	})
}

// unsubscribe is DELETE /v1/channels/{channel}/subscribers/{subscriber}.
func (s *subscribers) unsubscribe(c *web.Call) error {
	if err := s.service.Unsubscribe(c.Context(), c.Param(0), c.Param(1), channel.AnyLife); err != nil {
		return err
	}
	return c.NoContent()
}
