package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/access"
	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/server/web"
	"github.com/tidemark-dev/tidemark/wire"
)

// Channels are the operations on channels for operators.
type Channels interface {
	Channels(ctx context.Context, prefix, cursor string) (channel.SummaryPage, error)
	Peek(ctx context.Context, name string, from channel.From, limit int) (channel.Peek, error)
	Purge(ctx context.Context, r channel.PurgeRequest) (channel.Purged, error)
	Delete(ctx context.Context, name string) error
	Seek(ctx context.Context, r channel.SeekRequest) (channel.Sought, error)
}

// addChannels adds the routes of channels. What changes a channel is logged.
func addChannels(r *web.Router, of Channels, log *slog.Logger) {
	const at = "/v1/channels/:channel"
	a, c := web.API{Router: r, Fail: web.Fail}, &channels{of, log}
	for _, route := range []web.Route{
		{Method: http.MethodPost, Path: at + "/purge", Handle: c.purge},
		{Method: http.MethodDelete, Path: at, Handle: c.delete},
		{Method: http.MethodPost, Path: at + "/subscribers/:subscriber/seek", Handle: c.seek},
	} {
		route.Action, route.Admin = access.Admin, true
		a.Add(route)
	}
	for _, route := range []web.Route{
		{Path: "/v1/channels", Handle: c.list},
		{Path: at + "/messages", Handle: c.peek},
	} {
		route.Query, route.Action, route.Admin = web.QueryRead, access.Admin, true
		a.AddGet(route)
	}
}

type channels struct {
	service Channels
	log     *slog.Logger
}

// list is GET /v1/channels.
func (h *channels) list(c *web.Call) error {
	prefix, cursor := "", ""
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"prefix", "cursor"}, func(name, value string) error {
		if name == "prefix" {
			prefix = value
		} else {
			cursor = value
		}
		return nil
	})
	if err != nil {
		return err
	}
	page, err := h.service.Channels(c.Context(), prefix, cursor)
	if err != nil {
		return err
	}
	answer := wire.ChannelList{Channels: make([]wire.ListedChannel, len(page.Channels)), Cursor: page.Next}
	for i, one := range page.Channels {
		answer.Channels[i] = wire.ListedChannel{Channel: one.Name, Clock: one.Clock, TTLMillis: one.TTL.Milliseconds(),
			SubscriberCount: one.Subscribers}
	}
	return c.Value(http.StatusOK, answer)
}

// peek is GET /v1/channels/{channel}/messages.
func (h *channels) peek(c *web.Call) error {
	from, limit := channel.From{Start: channel.StartEarliest}, 0
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"after", "max"}, func(name, value string) (err error) {
		if name == "max" {
			limit, err = wire.ParseMax(value)
			return err
		}
		if from.Clock, err = clock.Parse(value); err != nil {
			return &fault.Error{Kind: fault.Invalid, Slug: fault.SlugInvalidPosition, Field: name,
				Detail: fmt.Sprintf("after must be a clock from %d to %d, not %.64q", clock.Min, clock.Max, value)}
		}
		from.Start = channel.StartAt
		return nil
	})
	if err != nil {
		return err
	}
	p, err := h.service.Peek(c.Context(), c.Param(0), from, limit)
	if err != nil {
		return err
	}
	answer := wire.Peeked{Channel: c.Param(0), Epoch: p.Epoch.String(), Clock: p.Clock, Through: p.Through,
		More: p.Through != p.Clock, Messages: make([]wire.Message, len(p.Messages))}
	for i := range p.Messages {
		m := &p.Messages[i]
		answer.Messages[i] = wire.Message{ID: m.ID, Clock: m.Clock, Content: m.Content, PublishedAt: m.PublishedAt}
	}
	return c.Append(http.StatusOK, answer.JSONSize(), answer.AppendJSON)
}

// purge is POST /v1/channels/{channel}/purge.
func (h *channels) purge(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := wire.DecodePurge(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	r := channel.PurgeRequest{Channel: c.Param(0)}
	if request.Through.Start == wire.StartAt {
		r.Through = channel.From{Start: channel.StartAt, Clock: request.Through.Clock}
	}
	if request.Epoch != "" {
		if r.Epoch, err = ulid.ParseStrict(request.Epoch); err != nil {
			return &wire.InputError{Slug: fault.SlugInvalidBody, Field: "/epoch", Offset: -1,
				Detail: "epoch: must be the epoch in the description of the channel"}
		}
	}
	p, err := h.service.Purge(c.Context(), r)
	switch {
	case err == nil:
		h.logged(c, "channel purged", slog.String("through", p.Clock.String()), slog.Uint64("messages", p.Removed))
	case p.Removed > 0:
		h.logged(c, "channel purged in part", slog.Uint64("messages", p.Removed), slog.Any("error", err))
		return err
	default:
		return err
	}
	return c.Value(http.StatusOK, wire.Purged{Channel: r.Channel, Epoch: p.Epoch.String(), Through: p.Clock,
		Purged: p.Removed})
}

// delete is DELETE /v1/channels/{channel}.
func (h *channels) delete(c *web.Call) error {
	if err := h.service.Delete(c.Context(), c.Param(0)); err != nil {
		return err
	}
	h.logged(c, "channel deleted")
	return c.NoContent()
}

// seek is POST /v1/channels/{channel}/subscribers/{subscriber}/seek.
func (h *channels) seek(c *web.Call) error {
	body, err := c.Body()
	if err != nil {
		return err
	}
	request, err := wire.DecodeSeek(body.Bytes)
	body.Release()
	if err != nil {
		return err
	}
	r := channel.SeekRequest{Channel: c.Param(0), Subscriber: c.Param(1), Time: request.To.Time}
	switch request.To.Start {
	case wire.StartEarliest:
		r.To.Start = channel.StartEarliest
	case wire.StartAt:
		r.To = channel.From{Start: channel.StartAt, Clock: request.To.Clock}
	case wire.StartLatest:
	}
	to, err := h.service.Seek(c.Context(), r)
	if err != nil {
		return err
	}
	h.logged(c, "mark set", slog.String("subscriber", r.Subscriber), slog.String("mark", to.Clock.String()))
	return c.Value(http.StatusOK, wire.Sought{Channel: r.Channel, Subscriber: r.Subscriber, Epoch: to.Epoch.String(),
		Mark: to.Clock, Lag: to.Lag})
}

// logged logs what an operator has changed in the channel of a call.
func (h *channels) logged(c *web.Call, what string, attributes ...slog.Attr) {
	by := access.Local()
	if p := c.Principal(); p != nil {
		by = p
	}
	h.log.LogAttrs(c.Context(), slog.LevelInfo, what,
		append(attributes, slog.String("channel", c.Param(0)), slog.String("by", by.Name()))...)
}
