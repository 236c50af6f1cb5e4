package predecessor

import (
	"context"
	"net/http"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Channels are the operations for the handlers, implemented by *channel.Service.
type Channels interface {
	Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error)
	Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error)
	Unsubscribe(ctx context.Context, name, subscriber string, last ulid.ULID) error
	Fetch(ctx context.Context, q channel.Query) (channel.Delivery, error)
	Ack(ctx context.Context, name, subscriber, handle string) error
}

// Options configures the API.
type Options struct {
	Channels Channels
	Limits   func() channel.Limits
	Prefix   string // of all paths, such as /old; segments of letters, digits and "_.~-"
}

// Register adds the routes of the API.
func Register(r *web.Router, o Options) {
	at, probe := o.Prefix+"/channel/:channel", o.Prefix+"/probe"
	subscriber := at + "/subscription/polling/:subscriber"
	a, h := web.API{Router: r, Fail: fail}, &handlers{channels: o.Channels, limits: o.Limits}
	for _, r := range []web.Route{
		{Method: http.MethodPut, Path: at + "/message/:id", Action: access.Publish, Of: web.Channel,
			Handle: h.publish},
		{Method: http.MethodPut, Path: subscriber, Action: access.Subscribe, Of: web.Subscriber,
			Handle: h.subscribe},
		{Method: http.MethodGet, Path: subscriber, Action: access.Subscribe, Of: web.Subscriber, Waits: true,
			Handle: h.poll},
		{Method: http.MethodDelete, Path: subscriber, Action: access.Subscribe, Of: web.Subscriber,
			Handle: h.unsubscribe},
		{Method: http.MethodDelete, Path: subscriber + "/message", Action: access.Subscribe, Of: web.Subscriber,
			Handle: h.ack},
	} {
		r.Query = web.QueryIgnored
		a.Add(r)
	}
	a.NothingBelow(at + "/message/:id")
	a.Always = true
	a.AddGet(web.Route{Path: probe + "/liveness", Query: web.QueryIgnored, Open: true, Handle: live})
	a.AddGet(web.Route{Path: probe + "/readiness", Query: web.QueryIgnored, Open: true, Handle: func(c *web.Call) error {
		if err := r.Ready(c.Context()); err != nil {
			return err
		}
		return live(c)
	}})
	r.FailUnrouted(func(r *http.Request) bool { // below the paths of the API
		path := r.URL.EscapedPath()
		return strings.HasPrefix(path, o.Prefix+"/channel/") || strings.HasPrefix(path, probe+"/")
	}, fail)
}

type handlers struct {
	channels Channels
	limits   func() channel.Limits
}

// publish is PUT /channel/{channel}/message/{id}. A duplicate is answered like the first message.
func (h *handlers) publish(c *web.Call) error {
	name, id := c.Param(0), c.Param(1)
	if err := channel.CheckMessageID(id); err != nil { // the service would generate an ID for an empty one
		return err
	}
	body, content, err := c.Content()
	if err != nil {
		return err
	}
	published, err := h.channels.Publish(c.Context(), channel.PublishRequest{
		Channel: name, Drafts: []channel.Draft{{ID: id, Content: content}},
	})
	if err != nil {
		return err // the body isn't released: an abandoned write may still be in progress
	}
	body.Release()
	answer := wire.OldPublished{ChannelID: name, MessageID: published[0].ID}
	return c.Append(http.StatusOK, 0, answer.AppendJSON)
}

// subscribe is PUT /channel/{channel}/subscription/polling/{subscriber}. A body is ignored.
func (h *handlers) subscribe(c *web.Call) error {
	r := channel.SubscribeRequest{Channel: c.Param(0), Subscriber: c.Param(1)}
	if _, err := h.channels.Subscribe(c.Context(), r); err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.OldSubscription{ChannelID: c.Param(0), SubscriberID: c.Param(1)})
}

// unsubscribe is DELETE /channel/{channel}/subscription/polling/{subscriber}.
func (h *handlers) unsubscribe(c *web.Call) error {
	if err := h.channels.Unsubscribe(c.Context(), c.Param(0), c.Param(1), channel.AnyLife); err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.OldSubscription{ChannelID: c.Param(0), SubscriberID: c.Param(1)})
}

// poll is GET /channel/{channel}/subscription/polling/{subscriber}.
func (h *handlers) poll(c *web.Call) error {
	q := channel.Query{Channel: c.Param(0), Subscriber: c.Param(1)}
	if err := pollQuery(c.Request().URL.RawQuery, h.limits(), &q); err != nil {
		return err
	}
	d, err := h.channels.Fetch(c.Context(), q)
	if err != nil {
		return err
	}
	answer := wire.OldDelivery{
		ChannelID: q.Channel, Messages: make([]wire.OldMessage, len(d.Messages)), AckHandle: d.Receipt,
		MoreMessages: d.More,
	}
	for i := range d.Messages {
		m := &d.Messages[i]
		answer.Messages[i] = wire.OldMessage{MessageID: m.ID, ContentType: m.ContentType, Content: wire.ContentJSON(m)}
	}
	return c.Append(http.StatusOK, 0, answer.AppendJSON)
}

// ack is DELETE /channel/{channel}/subscription/polling/{subscriber}/message.
func (h *handlers) ack(c *web.Call) error {
	handle, _ := queryValue(c.Request().URL.RawQuery, "ackHandle")
	if handle == "" {
		return badQuery(fault.SlugInvalidQuery, "ackHandle", `Missing "ackHandle" parameter`)
	}
	if err := h.channels.Ack(c.Context(), c.Param(0), c.Param(1), handle); err != nil {
		return err
	}
	return c.NoContent()
}

// live is GET /probe/liveness.
func live(c *web.Call) error { return c.Value(http.StatusOK, wire.OldProbe{}) }

// oldTexts are the predecessor's texts of errors. The details follow them.
var oldTexts = map[fault.Slug]string{
	fault.SlugInvalidChannel:    `Invalid "channelID" parameter`,
	fault.SlugInvalidSubscriber: `Invalid "subscriberID" parameter`,
	fault.SlugInvalidMessageID:  `Invalid "messageID" parameter`,
	fault.SlugInvalidContent:    "Request body is not JSON",
}

// fail answers with an error in the predecessor's form, with one code for all refused receipts, and one for all refused
// credentials.
func fail(c *web.Call, err error) {
	p := web.ProblemOf(err)
	status, answer := p.Status, wire.OldError{Error: p.Detail}
	if text, ok := oldTexts[p.Slug()]; ok {
		answer.Error = text + ": " + p.Detail
	}
	switch p.Slug() {
	case fault.SlugNoSubscriber:
		answer.Code = wire.OldCodeNoSubscriber
	case fault.SlugReserved:
		answer.Code = wire.OldCodeInvalidChannel
	case fault.SlugNoCredential, fault.SlugInvalidCredential, fault.SlugExpiredCredential, fault.SlugRevokedCredential,
		fault.SlugNotGranted:
		answer.Code = wire.OldCodeRejected
	case fault.SlugReceiptMalformed, fault.SlugReceiptForged, fault.SlugReceiptChannel, fault.SlugReceiptSubscriber,
		fault.SlugReceiptEpoch, fault.SlugReceiptAhead, fault.SlugReceiptSuperseded:
		status, answer.Code = http.StatusBadRequest, wire.OldCodeAckHandle
	default: // the predecessor has no codes for the others
	}
	c.SetRetryAfter(p.RetryAfter)
	_ = c.Value(status, answer) // a struct of strings can be encoded
}
