package channeltest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/tidemark-dev/tidemark/channel"
	"github.com/tidemark-dev/tidemark/clock"
	"github.com/tidemark-dev/tidemark/receipt"
)

const (
	// ttl is so long that nothing expires by itself while a case runs.
	ttl = time.Hour
	// large is more than any fetch of a case has to return.
	large = 64 << 20
	// timeout ends a wait for something that a broken store never does. A working store never reaches it.
	timeout = 30 * time.Second
)

var earliest = channel.From{Start: channel.StartEarliest}

// longName is as long as a name may be.
var longName = strings.Repeat("x", channel.MaxNameBytes)

// subject is a channel of a store, with the calls that cases make. An unexpected error fails the case. Its methods must
// be called from the goroutine of its test.
type subject struct {
	t       testing.TB
	h       Harness
	store   channel.Store
	channel string
	start   clock.Clock // the channel's clock when the case began
	policy  channel.Policy
}

func newSubject(t testing.TB, h Harness, name string) *subject {
	t.Helper()
	return &subject{
		t: t, h: h, store: h.Store(), channel: name,
		policy: channel.Policy{TTL: ttl, MaxMessageBytes: large},
	}
}

// on returns another channel of the same store.
func (s *subject) on(name string) *subject {
	other := *s
	other.channel, other.start = name, 0
	return &other
}

func (s *subject) ctx() context.Context { return s.t.Context() }

// startAt makes the channel with its clock at c. It makes no channel if c is 0.
func (s *subject) startAt(c clock.Clock) {
	s.t.Helper()
	s.start = c
	if c == 0 {
		return
	}
	s.subscribe("temporary")
	s.unsubscribe("temporary")
	s.setClock(c)
}

// at returns the clock of the n-th message published since the start.
func (s *subject) at(n int) clock.Clock { return s.start.Add(uint64(n)) }

func (s *subject) setClock(c clock.Clock) {
	s.t.Helper()
	require.NoError(s.t, s.h.SetClock(s.ctx(), s.channel, c))
}

// expire ends the lives of parts.
func (s *subject) expire(first Part, others ...Part) {
	s.t.Helper()
	require.NoError(s.t, s.h.Expire(s.ctx(), s.channel, append(others, first)...))
}

// expireAll ends the channel's life.
func (s *subject) expireAll() {
	s.t.Helper()
	require.NoError(s.t, s.h.Expire(s.ctx(), s.channel))
}

// expireMessages ends the lives of the messages numbered first to last since the start.
func (s *subject) expireMessages(first, last int) {
	s.t.Helper()
	var parts []Part
	for n := first; n <= last; n++ {
		parts = append(parts, message(s.at(n)))
	}
	if len(parts) > 0 {
		s.expire(parts[0], parts[1:]...)
	}
}

func (s *subject) life(p Part) time.Duration {
	s.t.Helper()
	left, err := s.h.Life(s.ctx(), s.channel, p)
	require.NoError(s.t, err, p)
	return left
}

func (s *subject) setLife(left time.Duration, parts ...Part) {
	s.t.Helper()
	for _, p := range parts {
		require.NoError(s.t, s.h.SetLife(s.ctx(), s.channel, p, left), p)
	}
}

// contentOf returns the content of an ID's message, for cases in which the content doesn't matter.
func contentOf(id string) []byte { return fmt.Appendf(nil, `{"of": %q}`, id) }

func draft(id string) channel.Draft { return channel.Draft{ID: id, Content: contentOf(id)} }

func draftsOf(ids ...string) []channel.Draft {
	drafts := make([]channel.Draft, len(ids))
	for i, id := range ids {
		drafts[i] = draft(id)
	}
	return drafts
}

// numbered returns n message IDs: m1, m2, …
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("m%d", i+1)
	}
	return ids
}

// send publishes drafts as one batch.
func (s *subject) send(drafts ...channel.Draft) []channel.Published {
	s.t.Helper()
	published, err := s.store.Publish(s.ctx(), channel.PublishRequest{Channel: s.channel, Drafts: drafts, Policy: s.policy})
	require.NoError(s.t, err, "publish")
	require.Len(s.t, published, len(drafts), "one result for each message")
	for i, p := range published {
		require.Equal(s.t, drafts[i].ID, p.ID, "results are in the order of the messages")
	}
	return published
}

// tryPublish publishes messages of these IDs as one batch.
func (s *subject) tryPublish(ctx context.Context, ids ...string) ([]channel.Published, error) {
	return s.store.Publish(ctx, channel.PublishRequest{Channel: s.channel, Drafts: draftsOf(ids...), Policy: s.policy})
}

// batch publishes messages of these IDs as one batch.
func (s *subject) batch(ids ...string) []channel.Published {
	s.t.Helper()
	return s.send(draftsOf(ids...)...)
}

// publish publishes messages of these IDs one after the other.
func (s *subject) publish(ids ...string) []channel.Published {
	s.t.Helper()
	var published []channel.Published
	for _, id := range ids {
		published = append(published, s.batch(id)...)
	}
	return published
}

func (s *subject) trySubscribe(name string, from channel.From) (channel.Subscription, error) {
	return s.store.Subscribe(s.ctx(), channel.SubscribeRequest{
		Channel: s.channel, Subscriber: name, From: from, Policy: s.policy,
	})
}

// subscribeFrom makes a subscriber that doesn't exist.
func (s *subject) subscribeFrom(name string, from channel.From) channel.Subscription {
	s.t.Helper()
	sub, err := s.trySubscribe(name, from)
	require.NoError(s.t, err, "subscribe")
	require.True(s.t, sub.Created, "a new subscriber is reported as created")
	return sub
}

func (s *subject) subscribe(name string) channel.Subscription {
	s.t.Helper()
	return s.subscribeFrom(name, channel.From{Start: channel.StartLatest})
}

func (s *subject) unsubscribe(name string) {
	s.t.Helper()
	require.NoError(s.t, s.store.Unsubscribe(s.ctx(), s.channel, name, ulid.ULID{}), "unsubscribe")
}

func (s *subject) request(name string, limit int) channel.FetchRequest {
	return channel.FetchRequest{Channel: s.channel, Subscriber: name, Max: limit, MaxBytes: large, Policy: s.policy}
}

// noSubscriber checks that a subscriber doesn't exist.
func (s *subject) noSubscriber(name string) {
	s.t.Helper()
	_, err := s.store.Fetch(s.ctx(), s.request(name, 1))
	require.ErrorIs(s.t, err, channel.ErrNoSubscriber)
}

func (s *subject) fetchWith(r channel.FetchRequest) channel.Batch {
	s.t.Helper()
	b, err := s.store.Fetch(s.ctx(), r)
	require.NoError(s.t, err, "fetch")
	require.NoError(s.t, checkBatch(b, r))
	return b
}

func (s *subject) fetchUpTo(name string, limit int) channel.Batch {
	s.t.Helper()
	return s.fetchWith(s.request(name, limit))
}

func (s *subject) fetch(name string) channel.Batch {
	s.t.Helper()
	return s.fetchUpTo(name, 10_000)
}

// reads fetches everything unread, and checks the batch as checkMessages does.
func (s *subject) reads(name string, expired int, ids ...string) channel.Batch {
	s.t.Helper()
	b := s.fetch(name)
	s.checkMessages(b, expired, ids...)
	require.Equal(s.t, b.Clock, b.Through, "a fetch without a limit reads up to the channel's clock")
	return b
}

// checkMessages checks that a batch has the messages of these IDs, each with its contentOf, and counts so many expired
// messages.
func (s *subject) checkMessages(b channel.Batch, expired int, ids ...string) {
	s.t.Helper()
	require.Equal(s.t, append([]string{}, ids...), idsOf(b), "the messages, in order")
	for _, m := range b.Messages {
		require.Equal(s.t, string(contentOf(m.ID)), string(m.Content), "the content of %s", m.ID)
	}
	require.Equal(s.t, uint64(expired), b.Expired, "the number of expired messages")
}

// receiptFor returns the receipt that the service makes of a batch.
func (s *subject) receiptFor(name string, b channel.Batch) receipt.Receipt {
	r := receipt.Receipt{Channel: s.channel, Subscriber: name, Epoch: b.Epoch, Clock: b.Through}
	if n := len(b.Messages); n > 0 && b.Messages[n-1].Clock == b.Through {
		r.MessageID = b.Messages[n-1].ID
	}
	return r
}

func (s *subject) tryAck(r receipt.Receipt) error {
	return s.store.Ack(s.ctx(), channel.AckRequest{Receipt: r, Policy: s.policy})
}

func (s *subject) ack(name string, b channel.Batch) {
	s.t.Helper()
	require.NoError(s.t, s.tryAck(s.receiptFor(name, b)), "ack")
}

func (s *subject) tryNext(r receipt.Receipt, limit int) (channel.Batch, error) {
	return s.store.Next(s.ctx(), channel.AckRequest{Receipt: r, Policy: s.policy}, s.request(r.Subscriber, limit))
}

func (s *subject) next(name string, b channel.Batch, limit int) channel.Batch {
	s.t.Helper()
	got, err := s.tryNext(s.receiptFor(name, b), limit)
	require.NoError(s.t, err, "next")
	require.NoError(s.t, checkBatch(got, s.request(name, limit)))
	return got
}

// readPosition reads the channel's position.
func (s *subject) readPosition() (channel.Position, error) {
	r := s.store.Positions(s.ctx(), []string{s.channel})[0]
	return r.Position, r.Err
}

// markOf returns a subscriber's mark.
func (s *subject) markOf(name string) clock.Clock {
	s.t.Helper()
	return s.fetchUpTo(name, 1).Mark
}

func (s *subject) position() channel.Position {
	s.t.Helper()
	p, err := s.readPosition()
	require.NoError(s.t, err, "position")
	return p
}

// describe returns a description with the subscribers of all pages, which are small.
func (s *subject) describe() channel.Description {
	s.t.Helper()
	d, err := s.tryDescribe()
	require.NoError(s.t, err, "describe")
	return d
}

func (s *subject) tryDescribe() (channel.Description, error) {
	r := channel.DescribeRequest{Channel: s.channel, Page: channel.Page{Limit: 3}, Policy: s.policy}
	d, err := s.store.Describe(s.ctx(), r)
	for err == nil && d.Next != 0 {
		r.Page.Cursor = d.Next
		earlier := d.Subscribers
		d, err = s.store.Describe(s.ctx(), r)
		d.Subscribers = append(earlier, d.Subscribers...)
	}
	byName := func(a, b channel.SubscriberLag) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(d.Subscribers, byName)
	d.Subscribers = slices.CompactFunc(d.Subscribers, func(a, b channel.SubscriberLag) bool { return a.Name == b.Name })
	return d, err
}

func idsOf(b channel.Batch) []string {
	ids := make([]string, len(b.Messages))
	for i, m := range b.Messages {
		ids[i] = m.ID
	}
	return ids
}

// checkBatch checks what holds for every batch: its messages are in order, each clock from the mark to Through is
// delivered or counted as expired, and the batch is within the limits of the request.
func checkBatch(b channel.Batch, r channel.FetchRequest) error {
	if b.Through != b.Mark && !clock.Between(b.Mark, b.Through, b.Clock) {
		return fmt.Errorf("the receipt is outside the unread messages: mark %s, through %s, clock %s",
			b.Mark, b.Through, b.Clock)
	}
	at, bytes := b.Mark, 0
	for _, m := range b.Messages {
		if !clock.Between(at, m.Clock, b.Through) {
			return fmt.Errorf("message %s at %s is out of order, or not covered by the receipt: after %s, through %s",
				m.ID, m.Clock, at, b.Through)
		}
		if m.PublishedAt.IsZero() {
			return fmt.Errorf("message %s has no publish time", m.ID)
		}
		at, bytes = m.Clock, bytes+len(m.Content)
	}
	covered := clock.Distance(b.Mark, b.Through)
	if counted := uint64(len(b.Messages)) + b.Expired; counted != covered {
		return fmt.Errorf("the receipt covers %d clocks, but %d were delivered and %d are counted as expired",
			covered, len(b.Messages), b.Expired)
	}
	if len(b.Messages) > r.Max {
		return fmt.Errorf("%d messages, at most %d were requested", len(b.Messages), r.Max)
	}
	if len(b.Messages) > 1 && bytes > r.MaxBytes {
		return fmt.Errorf("%d bytes, at most %d were requested", bytes, r.MaxBytes)
	}
	if b.Through == b.Mark && b.Mark != b.Clock {
		return fmt.Errorf("an empty batch although there is something unread: mark %s, clock %s",
			b.Mark, b.Clock)
	}
	return nil
}
