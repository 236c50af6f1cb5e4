package server

import (
	"net/http"
	"strconv"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/wire"
)

// describe is GET /v1/channels/{channel}.
func (s *Server) describe(c *call) error {
	name := c.param(0)
	var page channel.Page
	if err := pageQuery(c.request.URL.RawQuery, &page); err != nil {
		return err
	}
	d, err := s.service.Describe(c.request.Context(), name, page)
	if err != nil {
		return err
	}
	answer := wire.Description{
		Channel: name, Epoch: d.Epoch.String(), Clock: d.Clock, Live: d.Live, TTLMillis: d.TTL.Milliseconds(),
		SubscriberCount: d.Names, Subscribers: make([]wire.SubscriberLag, len(d.Subscribers)),
	}
	if d.Next != 0 {
		answer.Cursor = strconv.FormatUint(uint64(d.Next), 10)
	}
	if d.Live > 0 {
		answer.Oldest = &d.Oldest
	}
	for i, sub := range d.Subscribers {
		answer.Subscribers[i] = wire.SubscriberLag{Name: sub.Name, Mark: sub.Mark, Lag: sub.Lag}
	}
	return c.value(http.StatusOK, answer)
}
