package server

import (
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/wire"
)

// fetch is GET /v1/channels/{channel}/subscribers/{subscriber}/messages.
func (s *Server) fetch(c *call) error {
	q := channel.Query{Channel: c.param(0), Subscriber: c.param(1)}
	if err := fetchQuery(c.request.URL.RawQuery, &q); err != nil {
		return err
	}
	defer s.attend(c, &q)()
	d, err := s.service.Fetch(c.request.Context(), q)
	if err != nil {
		return err
	}
	return s.deliver(c, &d)
}

// ack is POST /v1/channels/{channel}/subscribers/{subscriber}/ack.
func (s *Server) ack(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeAck(body.bytes)
	body.release()
	if err != nil {
		return err
	}
	if err := s.service.Ack(c.request.Context(), c.param(0), c.param(1), request.ReceiptHandle); err != nil {
		return err
	}
	s.metrics.acks.Inc()
	return c.noContent()
}

// next is POST /v1/channels/{channel}/subscribers/{subscriber}/next.
func (s *Server) next(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeNext(body.bytes)
	body.release() // before the fetch, which may wait
	if err != nil {
		return err
	}
	q := channel.Query{Channel: c.param(0), Subscriber: c.param(1), Max: request.Max, Wait: time.Duration(request.Wait)}
	defer s.attend(c, &q)()
	d, err := s.service.Next(c.request.Context(), q, request.ReceiptHandle)
	if err != nil {
		return err
	}
	if request.ReceiptHandle != "" {
		s.metrics.acks.Inc()
	}
	return s.deliver(c, &d)
}

// deliver answers a fetch.
func (s *Server) deliver(c *call, d *channel.Delivery) error {
	s.count(d)
	answer := wire.Delivery{
		Messages: make([]wire.Message, len(d.Messages)), ReceiptHandle: d.Receipt, More: d.More, Expired: d.Expired,
	}
	for i := range d.Messages {
		m := &d.Messages[i]
		answer.Messages[i] = wire.Message{ID: m.ID, Clock: m.Clock, Content: m.Content, PublishedAt: m.PublishedAt}
	}
	out := newBuffer(answer.JSONSize())
	defer out.release()
	out.bytes = answer.AppendJSON(out.bytes)
	return c.json(http.StatusOK, out.bytes)
}

func (s *Server) count(d *channel.Delivery) {
	s.metrics.delivered.Add(float64(len(d.Messages)))
	s.metrics.expired.Add(float64(d.Expired))
}
