package v1

import (
	"context"
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// Describer describes channels.
type Describer interface {
	Describe(ctx context.Context, name string, page channel.Page) (channel.Description, error)
}

type channels struct{ service Describer }

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
		Channel: name, Epoch: d.Epoch.String(), Clock: d.Clock, Live: d.Live, TTLMillis: d.TTL.Milliseconds(),
		SubscriberCount: d.Names, Subscribers: make([]client.SubscriberLag, len(d.Subscribers)),
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
