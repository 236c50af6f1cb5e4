package server

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/wire"
)

// subscribe is PUT /v1/channels/{channel}/subscribers/{subscriber}.
func (s *Server) subscribe(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	defer body.release()
	request, err := wire.DecodeSubscribe(body.bytes)
	if err != nil {
		return err
	}
	name, subscriber := c.param(0), c.param(1)
	sub, err := s.service.Subscribe(c.request.Context(), name, subscriber, fromOf(request.From))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if sub.Created {
		status = http.StatusCreated
	}
	return c.value(status, wire.Subscription{
		Channel: name, Subscriber: subscriber, Created: sub.Created, Epoch: sub.Epoch.String(), Mark: sub.Clock,
	})
}

func fromOf(f wire.From) channel.From {
	switch f.Start {
	case wire.StartEarliest:
		return channel.From{Start: channel.StartEarliest}
	case wire.StartAt:
		return channel.From{Start: channel.StartAt, Clock: f.Clock}
	case wire.StartLatest:
	}
	return channel.From{Start: channel.StartLatest}
}

// unsubscribe is DELETE /v1/channels/{channel}/subscribers/{subscriber}.
func (s *Server) unsubscribe(c *call) error {
	if err := s.service.Unsubscribe(c.request.Context(), c.param(0), c.param(1)); err != nil {
		return err
	}
	return c.noContent()
}
