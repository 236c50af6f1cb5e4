package server

import (
	"errors"
	"net/http"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// publish is POST /v1/channels/{channel}/messages.
func (s *Server) publish(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	var space [1]wire.Draft
	decoded, batch, err := wire.AppendDrafts(space[:0], body.bytes)
	if err != nil {
		body.release()
		return err
	}
	drafts := make([]channel.Draft, len(decoded))
	for i, d := range decoded {
		drafts[i] = channel.Draft{ID: d.ID, Content: d.Content}
	}
	published, err := s.append(c, body, drafts)
	if err != nil {
		return err
	}
	return c.published(published, batch)
}

// putMessage is PUT /v1/channels/{channel}/messages/{id}.
func (s *Server) putMessage(c *call) error {
	published, err := s.appendContent(c)
	if err != nil {
		return err
	}
	return c.published(published, false)
}

// appendContent publishes a message whose ID is the path's second parameter and whose content is the body.
func (s *Server) appendContent(c *call) ([]channel.Published, error) {
	id := c.param(1)
	if err := channel.CheckMessageID(id); err != nil { // the service would make an ID where there is none
		return nil, err
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	content, err := wire.DecodeContent(body.bytes)
	if err != nil {
		body.release()
		return nil, err
	}
	published, err := s.append(c, body, []channel.Draft{{ID: id, Content: content}})
	var e *fault.Error
	if errors.As(err, &e) && e.Field == "/content" {
		whole := *e
		whole.Field = "" // the content is the whole body
		return nil, &whole
	}
	return published, err
}

// append publishes drafts whose contents are parts of body, and releases body.
func (s *Server) append(c *call, body *buffer, drafts []channel.Draft) ([]channel.Published, error) {
	published, err := s.service.Publish(c.request.Context(), c.param(0), drafts)
	if err != nil {
		return nil, err // body isn't used again: what was given up may still be on its way to the storage
	}
	body.release()
	for i := range published {
		if published[i].Duplicate {
			s.metrics.duplicates.Inc()
		} else {
			s.metrics.published.Inc()
		}
	}
	return published, nil
}

// published answers 201, or 200 where nothing is new.
func (c *call) published(published []channel.Published, batch bool) error {
	const perMessage = 2*channel.MaxNameBytes + 96
	status, name := http.StatusOK, c.param(0)
	out := newBuffer(len(published) * perMessage)
	defer out.release()
	b := out.bytes
	if batch {
		b = append(b, '[')
	}
	for i, p := range published {
		if i > 0 {
			b = append(b, ',')
		}
		if !p.Duplicate {
			status = http.StatusCreated
		}
		one := wire.Published{Channel: name, ID: p.ID, Clock: p.Clock, Duplicate: p.Duplicate}
		b = one.AppendJSON(b)
	}
	if batch {
		b = append(b, ']')
	}
	out.bytes = b
	return c.json(status, b)
}
