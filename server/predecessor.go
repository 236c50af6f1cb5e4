package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/wire"
)

// oldPublish is PUT /channel/{channel}/message/{id}. A duplicate is answered like the first.
func (s *Server) oldPublish(c *call) error {
	published, err := s.appendContent(c)
	if err != nil {
		return err
	}
	out := newBuffer(0)
	defer out.release()
	answer := wire.OldPublished{ChannelID: c.param(0), MessageID: published[0].ID}
	out.bytes = answer.AppendJSON(out.bytes)
	return c.json(http.StatusOK, out.bytes)
}

// oldSubscribe is PUT /channel/{channel}/subscription/polling/{subscriber}. It has no body; one that is there is ignored.
func (s *Server) oldSubscribe(c *call) error {
	if _, err := s.service.Subscribe(c.request.Context(), c.param(0), c.param(1), channel.From{}); err != nil {
		return err
	}
	return c.value(http.StatusOK, wire.OldSubscription{ChannelID: c.param(0), SubscriberID: c.param(1)})
}

// oldUnsubscribe is DELETE /channel/{channel}/subscription/polling/{subscriber}.
func (s *Server) oldUnsubscribe(c *call) error {
	if err := s.service.Unsubscribe(c.request.Context(), c.param(0), c.param(1)); err != nil {
		return err
	}
	return c.value(http.StatusOK, wire.OldSubscription{ChannelID: c.param(0), SubscriberID: c.param(1)})
}

// oldPoll is GET /channel/{channel}/subscription/polling/{subscriber}.
func (s *Server) oldPoll(c *call) error {
	q := channel.Query{Channel: c.param(0), Subscriber: c.param(1)}
	if err := oldQuery(c.request.URL.RawQuery, s.service.Limits(), &q); err != nil {
		return err
	}
	defer s.attend(c, &q)()
	d, err := s.service.Fetch(c.request.Context(), q)
	if err != nil {
		return err
	}
	s.count(&d)
	answer := wire.OldDelivery{
		ChannelID: q.Channel, Messages: make([]wire.OldMessage, len(d.Messages)), AckHandle: d.Receipt, MoreMessages: d.More,
	}
	for i := range d.Messages {
		answer.Messages[i] = wire.OldMessage{MessageID: d.Messages[i].ID, Content: d.Messages[i].Content}
	}
	out := newBuffer(0)
	defer out.release()
	out.bytes = answer.AppendJSON(out.bytes)
	return c.json(http.StatusOK, out.bytes)
}

// oldQuery reads timeout, which is cut to what the server allows, and max, likewise.
func oldQuery(raw string, limits channel.Limits, q *channel.Query) error {
	if text, ok := queryValue(raw, "timeout"); ok {
		timeout, err := time.ParseDuration(text)
		if err != nil {
			return &wire.InputError{Slug: fault.SlugInvalidWait, Field: "timeout", Offset: -1, Detail: fmt.Sprintf(`Invalid "timeout" parameter %.64q`, text)}
		}
		q.Wait = min(max(timeout, 0), limits.MaxWait) // a time that has passed already doesn't wait
	}
	if text, ok := queryValue(raw, "max"); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return &wire.InputError{Slug: fault.SlugInvalidMax, Field: "max", Offset: -1, Detail: fmt.Sprintf(`Invalid "max" parameter %.64q`, text)}
		}
		q.Max = min(n, limits.MaxMax)
	}
	return nil
}

// queryValue gives the first value of a query parameter, without a map of all.
func queryValue(raw, name string) (value string, ok bool) {
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		key, escaped, _ := strings.Cut(pair, "=")
		if key != name {
			continue
		}
		if plain, err := url.QueryUnescape(escaped); err == nil {
			return plain, true
		}
	}
	return "", false
}

// oldAck is DELETE /channel/{channel}/subscription/polling/{subscriber}/message.
func (s *Server) oldAck(c *call) error {
	handle, _ := queryValue(c.request.URL.RawQuery, "ackHandle")
	if handle == "" {
		return &wire.InputError{Slug: fault.SlugInvalidQuery, Field: "ackHandle", Offset: -1, Detail: `Missing "ackHandle" parameter`}
	}
	if err := s.service.Ack(c.request.Context(), c.param(0), c.param(1), handle); err != nil {
		return err
	}
	s.metrics.acks.Inc()
	return c.noContent()
}

// oldLive is GET /probe/liveness.
func (s *Server) oldLive(c *call) error { return c.value(http.StatusOK, wire.OldProbe{}) }

// oldReady is GET /probe/readiness.
func (s *Server) oldReady(c *call) error {
	if err := s.checkReady(c); err != nil {
		return err
	}
	return c.value(http.StatusOK, wire.OldProbe{})
}

// failAsPredecessor answers with an error as the predecessor did, which did not distinguish between refused receipts.
func failAsPredecessor(c *call, err error) {
	p := problemOf(err)
	status, answer := p.Status, wire.OldError{Error: p.Detail}
	switch p.Slug() {
	case fault.SlugNoSubscriber:
		answer.Code = wire.OldCodeNoSubscriber
	case fault.SlugReceiptMalformed, fault.SlugReceiptForged, fault.SlugReceiptChannel, fault.SlugReceiptSubscriber,
		fault.SlugReceiptEpoch, fault.SlugReceiptAhead, fault.SlugReceiptSuperseded:
		status, answer.Code = http.StatusBadRequest, wire.OldCodeAckHandle
	default: // the predecessor has no codes for the others
	}
	if p.RetryAfter > 0 {
		c.response.Header()[headerRetryAfter] = []string{strconv.Itoa(p.RetryAfter)}
	}
	_ = c.value(status, answer) // a struct of strings can be encoded
}
