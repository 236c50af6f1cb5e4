package v1

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Deliveries fetches and acknowledges messages.
type Deliveries interface {
	Ack(ctx context.Context, name, subscriber, handle string) error
	Next(ctx context.Context, q channel.Query, handle string) (channel.Delivery, error)
	FetchMany(ctx context.Context, q channel.ManyQuery) (channel.Deliveries, error)
}

type deliveries struct{ service Deliveries }

// fetch is GET /v1/channels/{channel}/subscribers/{subscriber}/messages.
func (d *deliveries) fetch(c *web.Call) error {
	q := channel.Query{Channel: c.Param(0), Subscriber: c.Param(1)}
	if err := fetchQuery(c.Request().URL.RawQuery, &q); err != nil {
		return err
	}
	return d.deliver(c, q, "")
}

// deliver acknowledges a receipt, if there is one, and answers with the messages that follow.
func (d *deliveries) deliver(c *web.Call, q channel.Query, handle string) error {
	delivery, err := d.service.Next(c.Context(), q, handle)
	if err != nil {
		return err
	}
	return answerDelivery(c, &delivery)
}

// ack is POST /v1/channels/{channel}/subscribers/{subscriber}/ack.
func (d *deliveries) ack(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeAck(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	if err := d.service.Ack(c.Context(), c.Param(0), c.Param(1), request.ReceiptHandle); err != nil {
		return err
	}
	return c.NoContent()
}

// next is POST /v1/channels/{channel}/subscribers/{subscriber}/next.
func (d *deliveries) next(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeNext(body.Bytes)
	body.Release() // before the fetch, which may wait
	if err != nil {
		return err
	}
	q := channel.Query{Channel: c.Param(0), Subscriber: c.Param(1), Max: request.Max, Wait: time.Duration(request.Wait),
		Last: request.LastReceiptHandle}
	return d.deliver(c, q, request.ReceiptHandle)
}

// fetchMany is POST /v1/fetch.
func (d *deliveries) fetchMany(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeFetch(body.Bytes)
	body.Release() // before the fetch, which may wait
	if err != nil {
		return err
	}
	var answer wire.Deliveries
	q, err := granted(c, &request, &answer)
	if err != nil {
		return err
	}
	if len(q.From) > 0 || len(answer.Problems) == 0 {
		all, err := d.service.FetchMany(c.Context(), q)
		switch {
		case len(all.Found) == 0 && c.Withdrawn():
			answer.Problems, all.Problems = nil, nil // of a read that was interrupted
			if q, err = granted(c, &request, &answer); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		for _, found := range all.Found {
			from := &q.From[found.Source]
			answer.Deliveries = append(answer.Deliveries, wire.SourceDelivery{Channel: from.Channel,
				Subscriber: from.Subscriber, Delivery: found.Delivery})
		}
		for _, p := range all.Problems {
			from := &q.From[p.Source]
			answer.Problems = append(answer.Problems, wire.SourceProblem{Channel: from.Channel,
				Subscriber: from.Subscriber, Problem: *c.Problem(p.Err)})
		}
	}
	return c.Append(http.StatusOK, answer.JSONSize(), answer.AppendJSON)
}

// granted returns the query for the sources that the client may fetch from. The others are problems of the answer,
// without a wait; if all are refused because the client has no credential, that is the error.
func granted(c *web.Call, r *wire.FetchRequest, answer *wire.Deliveries) (channel.ManyQuery, error) {
	q := channel.ManyQuery{From: make([]channel.Source, 0, len(r.From)), Max: r.Max, Wait: time.Duration(r.Wait)}
	anonymous := 0
	for i := range r.From {
		from := &r.From[i]
		err := c.Allow(access.Subscribe, access.Resource{Channel: from.Channel, Subscriber: from.Subscriber})
		if err == nil {
			q.From = append(q.From, channel.Source{Channel: from.Channel, Subscriber: from.Subscriber,
				Receipt: from.ReceiptHandle, Last: from.LastReceiptHandle})
			continue
		}
		if errors.Is(err, access.ErrNoCredential) {
			if anonymous++; anonymous == len(r.From) {
				return q, err
			}
		}
		q.Wait = 0
		answer.Problems = append(answer.Problems, wire.SourceProblem{Channel: from.Channel, Subscriber: from.Subscriber,
			Problem: *c.Problem(err)})
	}
	return q, nil
}

func answerDelivery(c *web.Call, d *channel.Delivery) error {
	return c.Append(http.StatusOK, wire.DeliverySize(d), func(b []byte) []byte { return wire.AppendDelivery(b, d) })
}
