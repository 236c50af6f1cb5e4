package admin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/oklog/ulid/v2"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/client"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access"
	"github.com/tidemark-dev/tidemark/internal/api/web"
	"github.com/tidemark-dev/tidemark/internal/wire"
)

// Channels are the operations on channels for operators.
type Channels interface {
	Channels(ctx context.Context, prefix, cursor string, details bool) (channel.SummaryPage, error)
	Policy(name string) (p channel.Policy, rule string, err error)
	Connected(name, after string, limit int) (channel.Connected, error)
	Peek(ctx context.Context, name string, from channel.From, limit int) (channel.Peek, error)
	Purge(ctx context.Context, r channel.PurgeRequest) (channel.Purged, error)
	Delete(ctx context.Context, name string) error
	Seek(ctx context.Context, r channel.SeekRequest) (channel.Sought, error)
}

// addChannels adds the routes of channels. What changes a channel is logged.
func addChannels(r *web.Router, of Channels, log *slog.Logger) {
	const at = "/v1/channels/:channel"
	a, c := web.API{Router: r, Fail: web.Fail}, &channels{of, log, newRates()}
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
		{Path: at + "/connected", Handle: c.connected},
	} {
		route.Query, route.Action, route.Admin = web.QueryRead, access.Admin, true
		a.AddGet(route)
	}
	a.AddGet(web.Route{Path: at + "/policy", Action: access.Admin, Admin: true, Handle: c.policy})
}

type channels struct {
	service Channels
	log     *slog.Logger
	rates   *rates
}

// list is GET /v1/channels.
func (h *channels) list(c *web.Call) error {
	prefix, cursor, sort := "", "", ""
	details := false
	err := web.ReadQuery(c.Request().URL.RawQuery, []string{"prefix", "cursor", "details", "sort"},
		func(name, value string) (err error) {
			switch name {
			case "prefix":
				prefix = value
			case "cursor":
				cursor = value
			case "details":
				if details, err = strconv.ParseBool(value); err != nil {
					return web.RefuseParameter(name, "details must be true or false")
				}
			default:
				if sort = value; orders[sort] == nil {
					return web.RefuseParameter(name, "sort must be name, lag, messages or rate")
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	page, err := h.service.Channels(c.Context(), prefix, cursor, details || sort != "" && sort != "name")
	if err != nil {
		return err
	}
	answer := wire.ChannelList{Channels: make([]client.ListedChannel, len(page.Channels)), Cursor: page.Next}
	for i, summary := range page.Channels {
		answer.Channels[i] = client.ListedChannel{Channel: summary.Name, Clock: summary.Clock,
			TTLMillis:       summary.TTL.Milliseconds(),
			SubscriberCount: summary.Subscribers}
		if d := summary.Details; d != nil {
			answer.Channels[i].Details = &client.ChannelDetails{Messages: d.Live, Lag: d.Slowest.Lag,
				Slowest: d.Slowest.Name, Partial: !d.All, Rate: h.rates.of(summary.Name, summary.Clock, time.Now())}
		}
	}
	if sort != "" {
		slices.SortStableFunc(answer.Channels, orders[sort])
	}
	return c.Value(http.StatusOK, answer)
}

// orders are the orders of a page of channels: by name, or with the largest number first.
var orders = map[string]func(a, b client.ListedChannel) int{
	"name":     func(a, b client.ListedChannel) int { return cmp.Compare(a.Channel, b.Channel) },
	"lag":      by(func(d *client.ChannelDetails) float64 { return float64(d.Lag) }),
	"messages": by(func(d *client.ChannelDetails) float64 { return float64(d.Messages) }),
	"rate": by(func(d *client.ChannelDetails) float64 {
		if d.Rate == nil {
			return -1
		}
		return *d.Rate
	}),
}

func by(number func(*client.ChannelDetails) float64) func(a, b client.ListedChannel) int {
	of := func(c client.ListedChannel) float64 {
		if c.Details == nil {
			return -2
		}
		return number(c.Details)
	}
	return func(a, b client.ListedChannel) int { return cmp.Compare(of(b), of(a)) }
}

// The bounds of rates: about 2 MB.
const (
	maxRates = 10_000
	rateLife = time.Hour
	// rateGap is the shortest time over which a rate is measured.
	rateGap = time.Second
)

// rates computes how fast channels grow from the times at which they are listed.
type rates struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, listed]
}

// listed is a channel when it was listed, and its rate then.
type listed struct {
	at    time.Time
	clock clock.Clock
	rate  *float64
}

func newRates() *rates {
	known, err := simplelru.NewLRU[string, listed](maxRates, nil)
	if err != nil {
		panic(err) // impossible: the size is positive
	}
	return &rates{known: known}
}

// of returns the messages per second since the channel was listed before; nil: it wasn't.
func (r *rates) of(name string, at clock.Clock, now time.Time) *float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, ok := r.known.Get(name)
	took := now.Sub(before.at)
	ok = ok && took <= rateLife
	if ok && took < rateGap {
		return before.rate
	}
	next := listed{at: now, clock: at}
	if grown := clock.Distance(before.clock, at); ok && grown < 1<<32 { // else it is another life's clock
		rate := math.Round(float64(grown)/took.Seconds()*1000) / 1000
		next.rate = &rate
	}
	r.known.Add(name, next)
	return next.rate
}

// policy is GET /v1/channels/{channel}/policy.
func (h *channels) policy(c *web.Call) error {
	p, rule, err := h.service.Policy(c.Param(0))
	if err != nil {
		return err
	}
	return c.Value(http.StatusOK, wire.ChannelPolicy{Channel: c.Param(0), Rule: rule, TTLMillis: p.TTL.Milliseconds(),
		MaxMessages: p.MaxMessages, MaxMessageBytes: p.MaxMessageBytes, Replicas: p.Replicas,
		MaxSubscribers: p.MaxSubscribers, Schema: p.Schema != nil, Copies: p.Copies, Plain: p.Plain})
}

// connected is GET /v1/channels/{channel}/connected.
func (h *channels) connected(c *web.Call) error {
	after, limit, err := pageQuery(c.Request().URL.RawQuery)
	if err != nil {
		return err
	}
	found, err := h.service.Connected(c.Param(0), after, limit)
	if err != nil {
		return err
	}
	answer := client.Connected{Channel: c.Param(0), Connections: client.Connections(found.Connections), Tails: found.Tails,
		Subscribers: make([]client.ConnectedSubscriber, len(found.Subscribers)), Cursor: found.Next}
	for i, s := range found.Subscribers {
		answer.Subscribers[i] = client.ConnectedSubscriber{Name: s.Name, Connections: client.Connections(s.Connections),
			Since: s.Since.UTC().Truncate(time.Millisecond)}
	}
	return answerCompressed(c, answer)
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
	name := c.Param(0)
	return c.Append(http.StatusOK, wire.PeekedSize(name, &p), func(b []byte) []byte {
		return wire.AppendPeeked(b, name, &p)
	})
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
	r := channel.PurgeRequest{Channel: c.Param(0), Through: channel.From(request.Through)}
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
	return c.Value(http.StatusOK, client.Purged{Channel: r.Channel, Epoch: p.Epoch.String(), Through: p.Clock,
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
	r := channel.SeekRequest{Channel: c.Param(0), Subscriber: c.Param(1), To: channel.From(request.To.From),
		Time: request.To.Time}
	to, err := h.service.Seek(c.Context(), r)
	if err != nil {
		return err
	}
	h.logged(c, "mark set", slog.String("subscriber", r.Subscriber), slog.String("mark", to.Clock.String()))
	return c.Value(http.StatusOK, client.Sought{Channel: r.Channel, Subscriber: r.Subscriber, Epoch: to.Epoch.String(),
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
