package v1

import (
	"context"
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Describer creates and describes channels.
type Describer interface {
	Create(ctx context.Context, r channel.CreateRequest) (channel.Created, error)
	Describe(ctx context.Context, name string, page channel.Page) (channel.Description, error)
}

type channels struct{ service Describer }

// create is PUT /v1/channels/{channel}.
func (h *channels) create(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	asked, err := wire.DecodeProperties(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	r := channel.CreateRequest{Channel: c.Param(0), Properties: asked}
	made, err := h.service.Create(c.Context(), r)
	switch {
	case err != nil:
		return err
	case made.Existed && (made.Closed || !made.Same(&asked)):
		return channel.ErrChannelExists
	}
	return c.Value(createdStatus(!made.Existed), client.Created{Channel: r.Channel, Created: !made.Existed,
		Epoch: made.Epoch.String(), Clock: made.Clock})
}

// describe is GET /v1/channels/{channel}.
func (h *channels) describe(c *web.Call) error {
	name := c.Param(0)
	var page channel.Page
	if err := pageQuery(c.Request().URL.RawQuery, &page); err != nil {
		return err
	}
	d, err := h.service.Describe(c.Context(), name, page)
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, descriptionOf(name, &d))
}

func descriptionOf(name string, d *channel.Description) client.Description {
	answer := client.Description{
		Channel: name, Epoch: d.Epoch.String(), Clock: d.Clock, Live: d.Live, TTLMillis: d.Remaining.Milliseconds(),
		Closed: d.Closed, ContentType: d.ContentType, Ends: d.Ends,
		SubscriberCount: d.Names, Subscribers: make([]client.SubscriberLag, len(d.Subscribers)),
	}
	if d.TTL > 0 {
		answer.TTL = d.TTL.String()
	}
	if d.Next != 0 {
		answer.Cursor = strconv.FormatUint(uint64(d.Next), 10)
	}
	if d.Live > 0 {
		answer.Oldest = &d.Oldest
	}
	for i, sub := range d.Subscribers {
		answer.Subscribers[i] = client.SubscriberLag{Name: sub.Name, Mark: sub.Mark, Lag: sub.Lag}
	}
	return answer
}
