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
	// large is more than any fetch of a case returns.
	large = 64 << 20
	// timeout limits waits, so that a broken store fails a case instead of hanging it. A working store never reaches
	// it.
	timeout = 30 * time.Second
	// million is more clocks than a store may visit one by one.
	million = 1_000_000
)

// earliest starts before the oldest message alive.
var earliest = channel.From{Start: channel.StartEarliest}

// longName is as long as a name may be.
var longName = strings.Repeat("x", channel.MaxNameBytes)

// testChannel is a channel of a store, with the calls that cases make. An unexpected error fails the case. Its methods
// must be called from the goroutine of its test.
type testChannel struct {
	T      testing.TB
	H      Harness
	Store  channel.Store
	Name   string
	Start  clock.Clock // the channel's clock when the case began
	Policy channel.Policy
}

// newTestChannel returns the channel of a name, which may not exist. Its messages live long.
func newTestChannel(t testing.TB, h Harness, name string) *testChannel {
	t.Helper()
	return &testChannel{
		T: t, H: h, Store: h.Store(), Name: name,
		Policy: channel.Policy{TTL: ttl, MaxMessageBytes: large},
	}
}

// On returns another channel of the same store.
func (s *testChannel) On(name string) *testChannel {
	other := *s
	other.Name, other.Start = name, 0
	return &other
}

// Ctx returns the context of the test.
func (s *testChannel) Ctx() context.Context { return s.T.Context() }

// StartAt creates the channel with its clock at c. It does nothing if c is 0.
func (s *testChannel) StartAt(c clock.Clock) {
	s.T.Helper()
	s.Start = c
	if c == 0 {
		return
	}
	s.Subscribe("temporary")
	s.Unsubscribe("temporary")
	s.SetClock(c)
}

// At returns the clock of the n-th message published since the start.
func (s *testChannel) At(n int) clock.Clock { return s.Start.Add(uint64(n)) }

// SetClock overwrites the clock of the channel, which exists.
func (s *testChannel) SetClock(c clock.Clock) {
	s.T.Helper()
	require.NoError(s.T, s.H.SetClock(s.Ctx(), s.Name, c))
}

// Expire ends the lives of parts.
func (s *testChannel) Expire(first Part, others ...Part) {
	s.T.Helper()
	require.NoError(s.T, s.H.Expire(s.Ctx(), s.Name, append(others, first)...))
}

// loseAfter simulates a fail-over that loses the messages after the n-th, whose IDs it gets.
func (s *testChannel) loseAfter(n int, ids ...string) {
	s.T.Helper()
	s.SetClock(s.At(n))
	for i, id := range ids {
		s.Expire(message(s.At(n+1+i)), record(id))
	}
}

// ExpireAll ends the channel's life.
func (s *testChannel) ExpireAll() {
	s.T.Helper()
	require.NoError(s.T, s.H.Expire(s.Ctx(), s.Name))
}

// ExpireMessages ends the lives of the messages numbered first to last since the start.
func (s *testChannel) ExpireMessages(first, last int) {
	s.T.Helper()
	var parts []Part
	for n := first; n <= last; n++ {
		parts = append(parts, message(s.At(n)))
	}
	if len(parts) > 0 {
		s.Expire(parts[0], parts[1:]...)
	}
}

// Life returns the rest of the life of a part.
func (s *testChannel) Life(p Part) time.Duration {
	s.T.Helper()
	life, err := s.H.Life(s.Ctx(), s.Name, p)
	require.NoError(s.T, err, p)
	return life
}

// SetLife sets the rest of the lives of parts.
func (s *testChannel) SetLife(life time.Duration, parts ...Part) {
	s.T.Helper()
	for _, p := range parts {
		require.NoError(s.T, s.H.SetLife(s.Ctx(), s.Name, p, life), p)
	}
}

// contentOf returns the content of an ID's message, for cases in which the content doesn't matter.
func contentOf(id string) []byte { return fmt.Appendf(nil, `{"of": %q}`, id) }

// draft returns a message with its contentOf.
func draft(id string) channel.Draft { return channel.Draft{ID: id, Content: contentOf(id)} }

// draftsOf returns a draft for each ID.
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

// Send publishes drafts as one batch. The results have no epochs.
func (s *testChannel) Send(drafts ...channel.Draft) []channel.Published {
	s.T.Helper()
	published, err := s.Store.Publish(s.Ctx(), channel.PublishRequest{Channel: s.Name, Drafts: drafts,
		Policy: s.Policy})
	require.NoError(s.T, err, "publish")
	require.Len(s.T, published, len(drafts), "one result for each message")
	for i, p := range published {
		require.Equal(s.T, drafts[i].ID, p.ID, "results are in the order of the messages")
	}
	return withoutEpochs(published)
}

// withoutEpochs removes the epochs of results, which are chance.
func withoutEpochs(published []channel.Published) []channel.Published {
	for i := range published {
		published[i].Epoch = ulid.ULID{}
	}
	return published
}

// TryPublish publishes messages of these IDs as one batch.
func (s *testChannel) TryPublish(ctx context.Context, ids ...string) ([]channel.Published, error) {
	return s.Store.Publish(ctx, channel.PublishRequest{Channel: s.Name, Drafts: draftsOf(ids...), Policy: s.Policy})
}

// Batch publishes messages of these IDs as one batch.
func (s *testChannel) Batch(ids ...string) []channel.Published {
	s.T.Helper()
	return s.Send(draftsOf(ids...)...)
}

// Publish publishes messages of these IDs one after the other.
func (s *testChannel) Publish(ids ...string) []channel.Published {
	s.T.Helper()
	var published []channel.Published
	for _, id := range ids {
		published = append(published, s.Batch(id)...)
	}
	return published
}

// TrySubscribe makes a subscriber, if it doesn't exist.
func (s *testChannel) TrySubscribe(name string, from channel.From) (channel.Subscription, error) {
	return s.Store.Subscribe(s.Ctx(), channel.SubscribeRequest{
		Channel: s.Name, Subscriber: name, From: from, Policy: s.Policy,
	})
}

// SubscribeFrom makes a subscriber that doesn't exist.
func (s *testChannel) SubscribeFrom(name string, from channel.From) channel.Subscription {
	s.T.Helper()
	sub, err := s.TrySubscribe(name, from)
	require.NoError(s.T, err, "subscribe")
	require.True(s.T, sub.Created, "a new subscriber is reported as created")
	return sub
}

// Subscribe makes a subscriber of later messages, which doesn't exist.
func (s *testChannel) Subscribe(name string) channel.Subscription {
	s.T.Helper()
	return s.SubscribeFrom(name, channel.From{Start: channel.StartLatest})
}

// Unsubscribe removes a subscriber.
func (s *testChannel) Unsubscribe(name string) {
	s.T.Helper()
	require.NoError(s.T, s.Store.Unsubscribe(s.Ctx(), s.Name, name, ulid.ULID{}), "unsubscribe")
}

// Request returns the request for a number of messages, of any size.
func (s *testChannel) Request(name string, limit int) channel.FetchRequest {
	return channel.FetchRequest{Channel: s.Name, Subscriber: name, Max: limit, MaxBytes: large, Policy: s.Policy}
}

// NoSubscriber checks that a subscriber doesn't exist.
func (s *testChannel) NoSubscriber(name string) {
	s.T.Helper()
	_, err := s.Store.Fetch(s.Ctx(), s.Request(name, 1))
	require.ErrorIs(s.T, err, channel.ErrNoSubscriber)
}

// FetchWith fetches, and checks the batch with checkBatch.
func (s *testChannel) FetchWith(r channel.FetchRequest) channel.Batch {
	s.T.Helper()
	b, err := s.Store.Fetch(s.Ctx(), r)
	require.NoError(s.T, err, "fetch")
	require.NoError(s.T, checkBatch(b, r))
	return b
}

// FetchUpTo fetches a number of messages at most.
func (s *testChannel) FetchUpTo(name string, limit int) channel.Batch {
	s.T.Helper()
	return s.FetchWith(s.Request(name, limit))
}

// Fetch fetches everything unread.
func (s *testChannel) Fetch(name string) channel.Batch {
	s.T.Helper()
	return s.FetchUpTo(name, 10_000)
}

// Reads fetches all unread messages, and checks the batch with CheckMessages.
func (s *testChannel) Reads(name string, expired int, ids ...string) channel.Batch {
	s.T.Helper()
	b := s.Fetch(name)
	s.CheckMessages(b, expired, ids...)
	require.Equal(s.T, b.Clock, b.Through, "a fetch without a limit reads up to the channel's clock")
	return b
}

// CheckMessages checks that a batch has the messages with these IDs, each with its contentOf, and the given number of
// expired messages.
func (s *testChannel) CheckMessages(b channel.Batch, expired int, ids ...string) {
	s.T.Helper()
	require.Equal(s.T, append([]string{}, ids...), idsOf(b), "the messages, in order")
	for _, m := range b.Messages {
		require.Equal(s.T, string(contentOf(m.ID)), string(m.Content), "the content of %s", m.ID)
	}
	require.Equal(s.T, uint64(expired), b.Expired, "the number of expired messages")
}

// ReceiptFor returns the receipt that the service issues for a batch.
func (s *testChannel) ReceiptFor(name string, b channel.Batch) receipt.Receipt {
	r := receipt.Receipt{Channel: s.Name, Subscriber: name, Epoch: b.Epoch, Clock: b.Through}
	if b.Last.Clock == b.Through {
		r.MessageID, r.Write, r.PublishedAt = b.Last.ID, b.Last.Write, b.Last.PublishedAt
	}
	return r
}

// aged returns a receipt as it is when the life of its message has ended.
func aged(r receipt.Receipt) receipt.Receipt {
	if !r.PublishedAt.IsZero() {
		r.PublishedAt = r.PublishedAt.Add(-ttl)
	}
	return r
}

// TryAck acknowledges a receipt.
func (s *testChannel) TryAck(r receipt.Receipt) error {
	return s.Store.Ack(s.Ctx(), channel.AckRequest{Receipt: r, Policy: s.Policy})
}

// Ack acknowledges a batch.
func (s *testChannel) Ack(name string, b channel.Batch) {
	s.T.Helper()
	require.NoError(s.T, s.TryAck(s.ReceiptFor(name, b)), "ack")
}

// TryNext acknowledges a receipt and fetches.
func (s *testChannel) TryNext(r receipt.Receipt, limit int) (channel.Batch, error) {
	return s.Store.Next(s.Ctx(), channel.AckRequest{Receipt: r, Policy: s.Policy}, s.Request(r.Subscriber, limit))
}

// Next acknowledges a batch and fetches the next one.
func (s *testChannel) Next(name string, b channel.Batch, limit int) channel.Batch {
	s.T.Helper()
	got, err := s.TryNext(s.ReceiptFor(name, b), limit)
	require.NoError(s.T, err, "next")
	require.NoError(s.T, checkBatch(got, s.Request(name, limit)))
	return got
}

// TryPosition reads the channel's position.
func (s *testChannel) TryPosition() (channel.Position, error) {
	r := s.Store.Positions(s.Ctx(), []string{s.Name})[0]
	return r.Position, r.Err
}

// MarkOf returns a subscriber's mark.
func (s *testChannel) MarkOf(name string) clock.Clock {
	s.T.Helper()
	return s.FetchUpTo(name, 1).Mark
}

// Position returns the channel's position.
func (s *testChannel) Position() channel.Position {
	s.T.Helper()
	p, err := s.TryPosition()
	require.NoError(s.T, err, "position")
	return p
}

// Describe returns a description with the subscribers of all pages, which are small.
func (s *testChannel) Describe() channel.Description {
	s.T.Helper()
	d, err := s.TryDescribe()
	require.NoError(s.T, err, "describe")
	return d
}

// TryDescribe returns a description with the subscribers of all pages, which are small, in order.
func (s *testChannel) TryDescribe() (channel.Description, error) {
	r := channel.DescribeRequest{Channel: s.Name, Page: channel.Page{Limit: 3}, Policy: s.Policy}
	d, err := s.Store.Describe(s.Ctx(), r)
	for err == nil && d.Next != 0 {
		r.Page.Cursor = d.Next
		earlier := d.Subscribers
		d, err = s.Store.Describe(s.Ctx(), r)
		d.Subscribers = append(earlier, d.Subscribers...)
	}
	byName := func(a, b channel.SubscriberLag) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(d.Subscribers, byName)
	d.Subscribers = slices.CompactFunc(d.Subscribers, func(a, b channel.SubscriberLag) bool { return a.Name == b.Name })
	return d, err
}

// idsOf returns the IDs of the messages of a batch.
func idsOf(b channel.Batch) []string {
	ids := make([]string, len(b.Messages))
	for i, m := range b.Messages {
		ids[i] = m.ID
	}
	return ids
}

// checkBatch checks the invariants of batches: the messages are in order, each clock from After to Through is
// delivered or counted as expired, purged or damaged, and the batch is within the limits of the request.
func checkBatch(b channel.Batch, r channel.FetchRequest) error {
	if b.Through != b.After && !clock.Between(b.After, b.Through, b.Clock) {
		return fmt.Errorf("the receipt is outside the unread messages: after %s, through %s, clock %s",
			b.After, b.Through, b.Clock)
	}
	at, bytes := b.After, 0
	for _, m := range b.Messages {
		if !clock.Between(at, m.Clock, b.Through) {
			return fmt.Errorf("message %s at %s is out of order, or not covered by the receipt: after %s, through %s",
				m.ID, m.Clock, at, b.Through)
		}
		if m.PublishedAt.IsZero() {
			return fmt.Errorf("message %s has no publish time", m.ID)
		}
		if m.Write.IsZero() {
			return fmt.Errorf("message %s has no write", m.ID)
		}
		at, bytes = m.Clock, bytes+len(m.Content)
	}
	if n := len(b.Messages); n > 0 && !sameMessage(b.Last, b.Messages[n-1]) && b.Messages[n-1].Clock == b.Through {
		return fmt.Errorf("the last message is %+v, and the batch has %+v for it", b.Messages[n-1], b.Last)
	}
	covered := clock.Distance(b.After, b.Through)
	if counted := uint64(len(b.Messages)) + b.Expired + b.Purged + b.Damaged; counted != covered {
		return fmt.Errorf("the receipt covers %d clocks, but %d were delivered, and %d are counted as expired, %d as purged and "+
			"%d as damaged", covered, len(b.Messages), b.Expired, b.Purged, b.Damaged)
	}
	if len(b.Messages) > r.Max {
		return fmt.Errorf("%d messages, at most %d were requested", len(b.Messages), r.Max)
	}
	if len(b.Messages) > 1 && bytes > r.MaxBytes {
		return fmt.Errorf("%d bytes, at most %d were requested", bytes, r.MaxBytes)
	}
	if b.Through == b.After && b.After != b.Clock {
		return fmt.Errorf("an empty batch although there is something unread: after %s, clock %s",
			b.After, b.Clock)
	}
	return nil
}

// sameMessage compares messages without their contents.
func sameMessage(a, b channel.Message) bool {
	return a.ID == b.ID && a.Clock == b.Clock && a.Write == b.Write && a.PublishedAt.Equal(b.PublishedAt)
}
