package server

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/fault"
	"github.com/tidemark-dev/tidemark/internal/access/limits"
	v1 "github.com/tidemark-dev/tidemark/internal/api/v1"
	"github.com/tidemark-dev/tidemark/internal/matchmaking/delivery"
	"github.com/tidemark-dev/tidemark/internal/tracing"
)

// channels are the operations on channels for clients, over any transport. The steps of each method are in the order in
// which they happen: reserved prefixes, the limits of the client in the context, the service, which finds the channel's
// policy, and counters.
type channels struct {
	service  v1.Channels // a *channel.Service, as streams
	streams  streamed
	lives    lives
	reserved reserved
	players  *delivery.Players // nil: there is no matchmaking, and tickets' channels are ordinary channels
	counts   messageCounts
}

// streamed serves streams and sockets, as a *channel.Service.
type streamed interface {
	BeginPublish(ctx context.Context, r channel.PublishRequest, done func([]channel.Published, error)) bool
	OpenStream(ctx context.Context, q channel.StreamQuery) (*channel.Stream, error)
}

// Publish publishes messages and counts them. A client that has made as many channels as it may publishes only to those
// that exist.
func (c *channels) Publish(ctx context.Context, r channel.PublishRequest) ([]channel.Published, error) {
	client, asked := limits.From(ctx), r.Existing
	if err := c.admitPublish(ctx, client, &r); err != nil {
		return nil, err
	}
	published, err := c.service.Publish(ctx, r)
	return c.published(client, r.Existing && !asked, published, err)
}

// Create creates a channel. A client that has made as many channels as it may gets those that exist.
func (c *channels) Create(ctx context.Context, r channel.CreateRequest) (made channel.Created, err error) {
	if err := c.reserved.write(r.Channel); err != nil {
		return made, err
	}
	client := limits.From(ctx)
	if err := client.Publish(ctx, countedBytes(r.Drafts)); err != nil {
		return made, err
	}
	r.Existing = !client.MayMake(limits.NewChannels)
	made, err = c.service.Create(ctx, r)
	switch {
	case r.Existing && errors.Is(err, channel.ErrNoChannel):
		return made, client.Refuse(limits.NewChannels)
	case err == nil && !made.Existed:
		client.Made(limits.NewChannels)
		c.counts.published.Add(float64(len(r.Drafts)))
	}
	return made, err
}

// CloseChannel closes a channel, as a publish without messages.
func (c *channels) CloseChannel(ctx context.Context, r channel.CloseRequest) (life channel.Life, err error) {
	if err := c.reserved.write(r.Channel); err != nil {
		return life, err
	}
	if err := limits.From(ctx).Publish(ctx, 0); err != nil {
		return life, err
	}
	return c.service.CloseChannel(ctx, r)
}

// BeginPublish is Publish without waiting, for one message. done is called once with the result, before BeginPublish
// returns or by a goroutine that others wait for too, so it must return soon. The content isn't used after BeginPublish
// has returned. If it returns a function, the caller must call that, which waits and calls done.
func (c *channels) BeginPublish(ctx context.Context, r channel.PublishRequest,
	done func([]channel.Published, error)) (alone func()) {
	client := limits.From(ctx)
	if client.PublishWaits() {
		r.Drafts = cloned(r.Drafts)
		return func() { done(c.Publish(ctx, r)) }
	}
	if err := c.admitPublish(ctx, client, &r); err != nil {
		done(nil, err)
		return nil
	}
	existing := r.Existing
	if c.streams.BeginPublish(ctx, r, func(published []channel.Published, err error) {
		done(c.published(client, existing, published, err))
	}) {
		return nil
	}
	r.Drafts = cloned(r.Drafts)
	return func() {
		published, err := c.service.Publish(ctx, r)
		done(c.published(client, existing, published, err))
	}
}

// cloned returns one draft with its content.
func cloned(drafts []channel.Draft) []channel.Draft {
	drafts = slices.Clone(drafts)
	drafts[0].Content = bytes.Clone(drafts[0].Content)
	return drafts
}

// admitPublish checks and completes a publish.
func (c *channels) admitPublish(ctx context.Context, client limits.Client, r *channel.PublishRequest) error {
	if err := c.reserved.write(r.Channel); err != nil {
		return err
	}
	if err := client.Publish(ctx, countedBytes(r.Drafts)); err != nil {
		return err
	}
	r.Existing = r.Existing || !client.MayMake(limits.NewChannels)
	if trace := tracing.Of(ctx); trace != "" {
		for i := range r.Drafts {
			r.Drafts[i].Trace = trace
		}
	}
	return nil
}

// published counts the result of a publish.
func (c *channels) published(client limits.Client, existing bool, published []channel.Published, err error) (
	[]channel.Published, error) {
	switch {
	case existing && errors.Is(err, channel.ErrNoChannel):
		return nil, client.Refuse(limits.NewChannels)
	case err != nil:
		return nil, err
	}
	if published[0].Begun {
		client.Made(limits.NewChannels)
	}
	c.counts.addPublished(published)
	return published, nil
}

// leastBytes is as how many bytes each message of a batch after the first counts at least: Redis needs about as much
// time for one as for a KiB of content.
const leastBytes = 1 << 10

// countedBytes returns as how many bytes messages count for the client's limit.
func countedBytes(drafts []channel.Draft) (bytes int) {
	for i := range drafts {
		n := len(drafts[i].Content)
		if i > 0 {
			n = max(n, leastBytes)
		}
		bytes += n
	}
	return bytes
}

// Subscribe makes a subscriber. A client that has made as many subscribers, or channels, as it may gets those that
// exist.
func (c *channels) Subscribe(ctx context.Context, r channel.SubscribeRequest) (channel.Subscription, error) {
	if err := c.reserved.write(r.Channel); err != nil {
		return channel.Subscription{}, err
	}
	client := limits.From(ctx)
	r.ExistingChannel, r.Existing = !client.MayMake(limits.NewChannels), !client.MayMake(limits.NewSubscribers)
	s, err := c.service.Subscribe(ctx, r)
	switch {
	case r.Existing && errors.Is(err, channel.ErrNoSubscriber):
		return s, client.Refuse(limits.NewSubscribers)
	case r.ExistingChannel && errors.Is(err, channel.ErrNoChannel):
		return s, client.Refuse(limits.NewChannels)
	case err != nil:
		return s, err
	}
	if s.Begun {
		client.Made(limits.NewChannels)
	}
	if s.Created {
		client.Made(limits.NewSubscribers)
	}
	return s, nil
}

// Unsubscribe removes a subscriber.
func (c *channels) Unsubscribe(ctx context.Context, name, subscriber string, last ulid.ULID) error {
	if err := c.reserved.write(name); err != nil {
		return err
	}
	return c.service.Unsubscribe(ctx, name, subscriber, last)
}

// Fetch fetches messages and counts them. It is one of the client's waits while it may wait.
func (c *channels) Fetch(ctx context.Context, q channel.Query) (channel.Delivery, error) {
	return c.Next(ctx, q, "")
}

// Next acknowledges a receipt, if there is one, fetches messages, and counts both. It is one of the client's waits
// while it may wait.
func (c *channels) Next(ctx context.Context, q channel.Query, handle string) (d channel.Delivery, err error) {
	if err = c.reserved.read(q.Channel); err != nil {
		return d, err
	}
	if id, ok := c.players.TicketOf(q.Channel, q.Subscriber); ok {
		d, err = c.players.Poll(ctx, id, q, handle, c.next)
	} else {
		d, err = c.next(ctx, q, handle)
	}
	if err == nil {
		c.delivered(ctx, &d, handle)
	}
	return d, err
}

// delivered counts what a Next has delivered and acknowledged.
func (c *channels) delivered(ctx context.Context, d *channel.Delivery, handle string) {
	c.counts.addDelivered(d)
	link(ctx, d.Messages)
	if handle != "" {
		c.counts.acks.Inc()
	}
}

// next is Next for a channel that isn't reserved, nor a ticket's.
func (c *channels) next(ctx context.Context, q channel.Query, handle string) (d channel.Delivery, err error) {
	done, err := wait(ctx, q.Wait, 1)
	if err != nil {
		return d, err
	}
	defer done()
	return c.service.Next(ctx, q, handle)
}

// Ack acknowledges a receipt and counts it.
func (c *channels) Ack(ctx context.Context, name, subscriber, handle string) error {
	if err := c.reserved.read(name); err != nil {
		return err
	}
	err := c.service.Ack(ctx, name, subscriber, handle)
	if err == nil {
		c.counts.acks.Inc()
	}
	return err
}

// sourcesPerWait is how many sources of a FetchMany count as one wait. They need about as much memory as one fetch:
// half of it if others wait on the same channels, half as much again if nobody does.
const sourcesPerWait = 8

// FetchMany acknowledges receipts, fetches messages of several subscribers, and counts both. Each 8 of them are a
// request, and one of the client's waits while it may wait.
func (c *channels) FetchMany(ctx context.Context, q channel.ManyQuery) (channel.Deliveries, error) {
	for _, from := range q.From {
		if err := c.reserved.read(from.Channel); err != nil {
			return channel.Deliveries{}, err
		}
	}
	if err := countSources(ctx, q.From); err != nil {
		return channel.Deliveries{}, err
	}
	var d channel.Deliveries
	var err error
	if polls := c.players.Polls(q.From); len(polls) > 0 {
		d, err = c.players.PollMany(ctx, polls, q, c.fetchMany)
	} else {
		d, err = c.fetchMany(ctx, q)
	}
	if err != nil {
		return d, err
	}
	for i := range d.Found {
		c.counts.addDelivered(&d.Found[i].Delivery)
		link(ctx, d.Found[i].Messages)
	}
	return d, nil
}

// countSources counts the sources of a call as further requests, since the store reads each of them.
func countSources(ctx context.Context, from []channel.Source) error {
	if len(from) <= sourcesPerWait {
		return nil
	}
	return limits.From(ctx).Further(ctx, (len(from)-1)/sourcesPerWait)
}

// link links the trace of a fetch to those of the publishes of its messages.
func link(ctx context.Context, messages []channel.Message) {
	tracing.LinkEach(ctx, len(messages), func(i int) string { return messages[i].Trace })
}

// acknowledged returns how many receipts a FetchMany has acknowledged: those of sources without a problem.
func acknowledged(from []channel.Source, problems []channel.Problem) (receipts int) {
	for i := range from {
		if from[i].Receipt != "" &&
			!slices.ContainsFunc(problems, func(p channel.Problem) bool { return p.Source == i }) {
			receipts++
		}
	}
	return receipts
}

// fetchMany is FetchMany for channels that aren't reserved, nor a ticket's, but for counting what is delivered.
func (c *channels) fetchMany(ctx context.Context, q channel.ManyQuery) (channel.Deliveries, error) {
	done, err := wait(ctx, q.Wait, (len(q.From)+sourcesPerWait-1)/sourcesPerWait)
	if err != nil {
		return channel.Deliveries{}, err
	}
	defer done()
	d, err := c.service.FetchMany(ctx, q)
	if err == nil {
		c.counts.acks.Add(float64(acknowledged(q.From, d.Problems)))
	}
	return d, err
}

// Describe describes a channel.
func (c *channels) Describe(ctx context.Context, name string, page channel.Page) (channel.Description, error) {
	return c.service.Describe(ctx, name, page)
}

// wait counts a request that may wait as a number of the client's waits, until done is called.
func wait(ctx context.Context, longest time.Duration, requests int) (done func(), err error) {
	if longest <= 0 {
		return func() {}, nil
	}
	return limits.From(ctx).Wait(requests)
}

// reserved are the prefixes of the names of channels that clients can't use.
type reserved struct {
	service []string // of channels that only the service writes to and reads
	written []string // of channels that only the service writes to
}

// write returns an error if clients can't write to a channel.
func (r *reserved) write(name string) error {
	if err := refuse(r.service, name); err != nil {
		return err
	}
	return refuse(r.written, name)
}

// read returns an error if clients can't fetch from a channel, nor acknowledge: as one of the service's subscribers
// they would keep messages from it.
func (r *reserved) read(name string) error { return refuse(r.service, name) }

func refuse(prefixes []string, name string) error {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return &fault.Error{
				Kind: fault.Forbidden, Slug: fault.SlugReserved, Field: "channel",
				Detail: "channels whose names start with " + prefix + " are written by the service only",
			}
		}
	}
	return nil
}

// messageCounts counts the messages that clients publish, fetch and acknowledge.
type messageCounts struct {
	published, duplicates, differing, delivered, expired, purged, damaged, acks prometheus.Counter
}

func newMessageCounts(registry *prometheus.Registry) messageCounts {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	return messageCounts{
		published:  counter("tidemark_messages_published_total", "Messages published, without duplicates."),
		duplicates: counter("tidemark_messages_duplicates_total", "Messages refused as duplicates of an earlier one."),
		differing: counter("tidemark_messages_differing_total",
			"Duplicates whose content differs from that of the message with their ID."),
		delivered: counter("tidemark_messages_delivered_total", "Messages in answers to fetches, repeats included."),
		expired: counter("tidemark_messages_expired_total",
			"Messages that fetches skipped because they had expired."),
		purged: counter("tidemark_messages_purged_total",
			"Messages that fetches skipped because an operator had purged them."),
		damaged: counter("tidemark_messages_damaged_total",
			"Messages that fetches skipped because their storage is damaged."),
		acks: counter("tidemark_acks_total", "Receipts acknowledged, repeats included."),
	}
}

func (m *messageCounts) addPublished(published []channel.Published) {
	for i := range published {
		if published[i].Duplicate {
			m.duplicates.Inc()
			if published[i].Differs {
				m.differing.Inc()
			}
		} else {
			m.published.Inc()
		}
	}
}

// addGap counts the messages of a gap.
func (m *messageCounts) addGap(g *channel.Gap) {
	switch g.Reason {
	case channel.GapPurged:
		m.purged.Add(float64(g.Count))
	case channel.GapDamaged:
		m.damaged.Add(float64(g.Count))
	default: // the others have no count
		m.expired.Add(float64(g.Count))
	}
}

// addDelivered counts the messages of a delivery.
func (m *messageCounts) addDelivered(d *channel.Delivery) {
	m.delivered.Add(float64(len(d.Messages)))
	m.expired.Add(float64(d.Expired))
	m.purged.Add(float64(d.Purged))
	m.damaged.Add(float64(d.Damaged))
}
