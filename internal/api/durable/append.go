package durable

import (
	"net/http"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/api/web"
)

// append is POST to a stream.
func (d *api) append(c *web.Call) error {
	r := channel.PublishRequest{Existing: true}
	var err error
	if r.Channel, err = d.name(c); err != nil {
		return err
	}
	header := c.Request().Header
	if r.Producer, err = producerOf(header); err != nil {
		return err
	}
	if r.Order, err = orderOf(header); err != nil {
		return err
	}
	r.Close = isSet(header)
	body, err := c.Body()
	if err != nil {
		return err
	}
	if len(body.Bytes) == 0 {
		body.Release()
		if !r.Close {
			return refuse(streamClosed, "the body is empty, which only a request that closes the stream may have")
		}
		return d.close(c, &r)
	}
	if r.Drafts, err = draftsToAppend(header, body.Bytes); err != nil {
		body.Release()
		return err
	}
	c.Decoded()
	published, err := d.channels.Publish(c.Context(), r)
	if err != nil {
		return err // the body isn't released: an abandoned write may still be in progress
	}
	body.Release()
	last := &published[len(published)-1]
	answer := c.Response().Header()
	answer.Set(streamNext, offset(last.Epoch, last.Clock, last.First))
	if r.Close {
		answer.Set(streamClosed, yes)
	}
	if r.Producer == nil {
		return c.NoContent()
	}
	setNumber(answer, producerEpoch, r.Producer.Epoch)
	setNumber(answer, producerSeq, last.Sequence)
	if last.Duplicate {
		return c.NoContent()
	}
	return c.Empty(http.StatusOK)
}

// draftsToAppend returns the messages of a body that isn't empty.
func draftsToAppend(h http.Header, body []byte) ([]channel.Draft, error) {
	contentType, sent, err := one(h, headerType)
	if err != nil {
		return nil, err
	}
	if !sent || contentType == "" {
		return nil, refuse(headerType, "the request has a body and no Content-Type")
	}
	drafts, err := draftsOf(contentType, body)
	if err == nil && len(drafts) == 0 {
		err = refuse(headerType, "the array is empty: there is nothing to append")
	}
	return drafts, err
}

// orderOf returns Stream-Seq.
func orderOf(h http.Header) (string, error) {
	order, sent, err := one(h, streamSeq)
	switch {
	case err != nil:
		return "", err
	case sent && (order == "" || len(order) > channel.MaxOrderBytes):
		return "", refuse(streamSeq, "Stream-Seq has %d bytes, it must have 1 to %d", len(order), channel.MaxOrderBytes)
	}
	return order, nil
}

// close closes a stream without appending to it.
func (d *api) close(c *web.Call, r *channel.PublishRequest) error {
	life, err := d.channels.CloseChannel(c.Context(), channel.CloseRequest{Channel: r.Channel, Producer: r.Producer})
	if err != nil {
		return err
	}
	answer := c.Response().Header()
	answer.Set(streamNext, offset(life.Epoch, life.Clock, life.First))
	answer.Set(streamClosed, yes)
	if r.Producer != nil {
		setNumber(answer, producerEpoch, r.Producer.Epoch)
		setNumber(answer, producerSeq, r.Producer.Sequence)
	}
	return c.NoContent()
}
